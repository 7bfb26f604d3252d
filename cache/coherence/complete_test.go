package coherence

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// knows reports whether n is complete at its beginning.
func knows(n *Node) bool { return n.Complete(rules, 0, time.Second, 0) > 0 }

// TestComplete walks what happens to a directory that is completely known, and says
// whether it is afterwards, and after its attributes were asked for once more.
func TestComplete(t *testing.T) {
	finish := func(w nfsclient.Wcc) func(*Node, *clock) {
		return func(n *Node, c *clock) {
			n.Begin()
			n.Finish(rules, Stamp{Gen: c.gen()}, c.gen(), &w, true)
		}
	}
	note := func(a *nfsclient.Attr) func(*Node, *clock) {
		return func(n *Node, c *clock) { n.Note(rules, Stamp{Gen: c.gen()}, c.gen(), a) }
	}
	for _, e := range []struct {
		name       string
		do         func(*Node, *clock)
		now, later bool
	}{
		{"nothing", func(*Node, *clock) {}, true, true},
		{"seen unchanged", note(attrs(10, 10)), true, true},
		{"seen changed", note(attrs(11, 11)), false, false},
		{"own change", finish(nfsclient.Wcc{Before: pre(10), After: post(11, 11)}), true, true},
		{"own failure", finish(nfsclient.Wcc{Before: pre(10), After: post(10, 10)}), true, true},
		{"own change after another's", finish(nfsclient.Wcc{Before: pre(11), After: post(12, 12)}), false, false},
		{"own failure after another's", finish(nfsclient.Wcc{Before: pre(11), After: post(11, 11)}), false, false},
		{"own change without the state before", finish(nfsclient.Wcc{After: post(11, 11)}), false, false},
		{"own change without the state after", finish(nfsclient.Wcc{Before: pre(10)}), false, false},
		{"reply lost", finish(nfsclient.Wcc{}), false, false},
		{"own change under way", func(n *Node, c *clock) { n.Begin() }, false, false},
		{"invalid", func(n *Node, c *clock) { n.Invalidate() }, false, true},
		{"moved", func(n *Node, c *clock) { n.Relink(); n.Relinked(c.gen()) }, false, true},
		{"recalled", func(n *Node, c *clock) { n.Recall(c.gen()) }, false, false},
		{"a name lost", func(n *Node, c *clock) { n.Incomplete() }, false, false},
	} {
		var c clock
		var n Node
		st := Stamp{Gen: c.gen()}
		n.Note(rules, st, c.gen(), attrs(10, 10))
		if knows(&n) {
			t.Errorf("%s: complete before it was born", e.name)
		}
		n.Born(st, attrs(10, 10))
		e.do(&n, &c)
		if got := knows(&n); got != e.now {
			t.Errorf("%s: complete %v, want %v", e.name, got, e.now)
		}
		a := n.Full(rules.Type)
		note(&a)(&n, &c)
		if got := knows(&n); got != e.later {
			t.Errorf("%s, and asked: complete %v, want %v", e.name, got, e.later)
		}
		if n.Complete(rules, time.Hour, 2*time.Hour, 0) > 0 {
			t.Errorf("%s: complete though attributes have expired", e.name)
		}
	}
}

// TestBornTooLate: a directory that was changed, by us or by someone else, before the
// reply to the call that made it is handed in is not completely known.
func TestBornTooLate(t *testing.T) {
	var c clock
	st := Stamp{Gen: c.gen()}
	var ours, theirs Node
	for _, n := range []*Node{&ours, &theirs} {
		n.Note(rules, st, c.gen(), attrs(10, 10))
	}
	ours.Begin()
	ours.Finish(rules, Stamp{Gen: c.gen()}, c.gen(), &nfsclient.Wcc{Before: pre(10), After: post(10, 10)}, false)
	theirs.Note(rules, Stamp{Gen: c.gen()}, c.gen(), attrs(11, 11))
	for whose, n := range map[string]*Node{"ours": &ours, "theirs": &theirs} {
		if n.Born(st, attrs(10, 10)); knows(n) {
			t.Errorf("complete after a change of %s", whose)
		}
	}
}

// TestCompleteNeedsProof: the server must have shown the state within the window, and since
// another client was seen, however fresh the attributes are.
func TestCompleteNeedsProof(t *testing.T) {
	const window = time.Second
	var c clock
	var n Node
	st := Stamp{Gen: c.gen()}
	n.Note(rules, st, c.gen(), attrs(10, 10))
	n.Born(st, attrs(10, 10))
	complete := func(at time.Duration, sign uint64, want time.Duration) {
		t.Helper()
		if !n.Fresh(at) {
			t.Fatalf("attributes have expired at %v", at)
		}
		if got := n.Complete(rules, at, window, sign); got != want {
			t.Errorf("complete at %v for %v, want %v", at, got, want)
		}
	}
	complete(window-1, 0, 1)
	complete(window, 0, 0)
	sign := c.gen()
	complete(0, sign, 0)
	// Seen unchanged, late enough for the timeout to double.
	n.Note(rules, Stamp{Gen: c.gen(), At: rules.Min}, c.gen(), attrs(10, 10))
	complete(rules.Min+window-1, sign, 1)
	complete(rules.Min+window, sign, 0)
}
