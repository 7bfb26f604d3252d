package coherence

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

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
		if n.Complete(0) {
			t.Errorf("%s: complete before it was born", e.name)
		}
		n.Born(st, attrs(10, 10))
		e.do(&n, &c)
		if got := n.Complete(0); got != e.now {
			t.Errorf("%s: complete %v, want %v", e.name, got, e.now)
		}
		a := n.Full(rules.Type)
		note(&a)(&n, &c)
		if got := n.Complete(0); got != e.later {
			t.Errorf("%s, and asked: complete %v, want %v", e.name, got, e.later)
		}
		if n.Complete(time.Hour) {
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
		if n.Born(st, attrs(10, 10)); n.Complete(0) {
			t.Errorf("complete after a change of %s", whose)
		}
	}
}
