package coherence

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

var rules = Rules{Type: nfsclient.Regular, Min: 3 * time.Second, Max: 60 * time.Second}

// attrs are those of a file of which all is alike but what n tells.
func attrs(size, ctime int) *nfsclient.Attr {
	mtime, changed := time.Unix(int64(size), 0), time.Unix(int64(ctime), 0)
	return &nfsclient.Attr{Type: nfsclient.Regular, Mode: 0o644, Size: uint64(size), Mtime: mtime, Ctime: changed,
		Change: nfsclient.ChangeByTimes(uint64(size), mtime, changed)}
}

func pre(n int) nfsclient.PreChange {
	return nfsclient.PreChange{Set: true, ID: attrs(n, n).Change}
}

func post(size, ctime int) nfsclient.PostAttr {
	return nfsclient.PostAttr{Set: true, Attr: *attrs(size, ctime)}
}

// clock draws generations.
type clock uint64

func (c *clock) gen() uint64 { *c++; return uint64(*c) }

// situation is what had happened to a node before a reply came.
type situation uint8

const (
	unknown      situation = iota // nothing
	quiet                         // attributes were noted
	changing                      // and a change of ours is under way
	changed                       // that ended after the call was sent
	relinked                      // a link of ours had ended before the call was sent
	relinkedLate                  // after it
	relinking                     // has not ended
)

var situations = [...]string{"unknown", "quiet", "changing", "changed", "relinked", "relinked late", "relinking"}

// in is a node in a situation, whose attributes are attrs(10, 10) if any, and the
// stamp of the call that the reply is to.
func in(s situation, c *clock) (n *Node, st Stamp) {
	n = &Node{}
	if s == unknown {
		return n, Stamp{Gen: c.gen()}
	}
	n.Note(rules, Stamp{Gen: c.gen()}, c.gen(), attrs(10, 10))
	switch s {
	case changing:
		n.Begin()
	case changed:
		st = Stamp{Gen: c.gen()}
		n.Begin()
		n.Finish(rules, Stamp{Gen: c.gen()}, c.gen(), &nfsclient.Wcc{Before: pre(10), After: post(10, 10)}, false)
		return n, st
	case relinked:
		n.Relink()
		n.Relinked(c.gen())
	case relinkedLate:
		st = Stamp{Gen: c.gen()}
		n.Relink()
		n.Relinked(c.gen())
		return n, st
	case relinking:
		n.Begin()
		n.Relink()
		n.Relinked(c.gen())
	}
	return n, Stamp{Gen: c.gen()}
}

// TestNoteTransitions walks every pair of a situation and a reply.
func TestNoteTransitions(t *testing.T) {
	chmod := attrs(10, 11)
	chmod.Mode = 0o600
	dir := attrs(10, 11)
	dir.Type = nfsclient.Directory
	type outcome struct {
		effect Effect
		fresh  bool
	}
	const foreign = Foreign | RightsChanged
	replies := []struct {
		name string
		a    *nfsclient.Attr
		want [relinking + 1]outcome
	}{
		//                                unknown    quiet      changing    changed     relinked   relinkedLate  relinking
		{"same", attrs(10, 10), [...]outcome{{0, true}, {0, true}, {0, true}, {0, true}, {0, true}, {0, false}, {0, true}}},
		{"older", attrs(9, 9), [...]outcome{{0, true}, {foreign, true}, {0, false}, {0, true}, {foreign, true}, {foreign, false}, {0, false}}},
		{"of the same ctime", attrs(11, 10), [...]outcome{{0, true}, {foreign, true}, {0, false}, {0, false}, {foreign, true}, {foreign, false}, {0, false}}},
		{"newer ctime", attrs(10, 11), [...]outcome{{0, true}, {foreign, true}, {0, false}, {0, false}, {RightsChanged, true}, {RightsChanged, false}, {0, false}}},
		{"newer content", attrs(11, 11), [...]outcome{{0, true}, {foreign, true}, {0, false}, {0, false}, {foreign, true}, {foreign, false}, {0, false}}},
		{"other mode", chmod, [...]outcome{{0, true}, {foreign, true}, {RightsChanged, false}, {RightsChanged, false}, {RightsChanged, true}, {RightsChanged, false}, {RightsChanged, false}}},
		{"other type", dir, [...]outcome{{0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false}}},
	}
	for _, r := range replies {
		for s := unknown; s <= relinking; s++ {
			var c clock
			n, st := in(s, &c)
			e := n.Note(rules, st, c.gen(), r.a)
			if got := (outcome{e, n.Fresh(0)}); got != r.want[s] {
				t.Errorf("%s, a reply %s: %+v, want %+v", situations[s], r.name, got, r.want[s])
			}
			if e&Foreign != 0 && n.now() != r.a.Change {
				t.Errorf("%s, a reply %s: the state is %v", situations[s], r.name, n.now())
			}
		}
	}
}

// TestRelinkIsExpectedOnce: of the changes of ctime after a link of ours, the first
// is ours, and the next one is another machine's.
func TestRelinkIsExpectedOnce(t *testing.T) {
	var c clock
	n, st := in(relinked, &c)
	if e := n.Note(rules, st, c.gen(), attrs(10, 11)); e&Foreign != 0 {
		t.Error("our own link is another's change")
	}
	if e := n.Note(rules, Stamp{Gen: c.gen()}, c.gen(), attrs(10, 12)); e&Foreign == 0 {
		t.Error("the change after it is not")
	}
}

// TestFinishTransitions: whose change it was, by what replies to changes of ours
// say, and what must not be believed after it.
func TestFinishTransitions(t *testing.T) {
	for _, c := range []struct {
		name   string
		w      []nfsclient.Wcc
		assume bool
		effect Effect
		fresh  bool
	}{
		{"the successor", []nfsclient.Wcc{{Before: pre(10), After: post(11, 11)}}, false, 0, true},
		{"no change", []nfsclient.Wcc{{Before: pre(10), After: post(10, 10)}}, false, 0, true},
		{"two in order", []nfsclient.Wcc{{Before: pre(10), After: post(11, 11)}, {Before: pre(11), After: post(12, 12)}}, false, 0, true},
		{"two in the other order", []nfsclient.Wcc{{Before: pre(11), After: post(12, 12)}, {Before: pre(10), After: post(11, 11)}}, false, 0, true},
		{"with a gap", []nfsclient.Wcc{{Before: pre(11), After: post(12, 12)}}, false, Foreign | RightsChanged, true},
		{"nothing from before", []nfsclient.Wcc{{After: post(11, 11)}}, false, Foreign | RightsChanged, true},
		{"nothing from before, assumed", []nfsclient.Wcc{{After: post(11, 11)}}, true, 0, true},
		{"nothing from after", []nfsclient.Wcc{{Before: pre(10)}}, false, 0, false},
		{"nothing", []nfsclient.Wcc{{}}, true, 0, false},
		{"the clock went back", []nfsclient.Wcc{{Before: pre(10), After: post(9, 9)}}, false, 0, true},
		{"older, unconnected", []nfsclient.Wcc{{After: post(9, 9)}}, false, 0, false},
	} {
		var g clock
		n, _ := in(quiet, &g)
		st := make([]Stamp, len(c.w))
		for k := range c.w {
			n.Begin()
			st[k] = Stamp{Gen: g.gen()}
		}
		var e Effect
		for k := range c.w {
			e |= n.Finish(rules, st[k], g.gen(), &c.w[k], c.assume)
		}
		if e != c.effect || n.Fresh(0) != c.fresh || n.Changing() {
			t.Errorf("%s: effect %d, fresh %v; want %d, %v", c.name, e, n.Fresh(0), c.effect, c.fresh)
		}
	}
}

// TestTimeoutGrows: the timeout starts at the minimum whenever the state has
// changed, doubles each time that it is seen unchanged for that long, and stays at
// the maximum.
func TestTimeoutGrows(t *testing.T) {
	var c clock
	var n Node
	at := time.Duration(0)
	see := func(a *nfsclient.Attr, want time.Duration) {
		t.Helper()
		n.Note(rules, Stamp{c.gen(), at}, c.gen(), a)
		if got := n.TTL(at); got != want {
			t.Errorf("at %v: believed for %v, want %v", at, got, want)
		}
	}
	see(attrs(1, 1), 3*time.Second)
	at += time.Second
	see(attrs(1, 1), 3*time.Second) // too soon to tell
	for _, want := range []time.Duration{6, 12, 24, 48, 60, 60} {
		at += 60 * time.Second
		see(attrs(1, 1), want*time.Second)
	}
	at += time.Second
	see(attrs(2, 2), 3*time.Second)
	if n.Fresh(at + 3*time.Second) {
		t.Error("believed when the timeout has passed")
	}
	n.Invalidate()
	if n.Fresh(at) || n.TTL(at) != 0 {
		t.Error("believed although invalid")
	}
}

// TestRights: an answer holds for its user and the rights asked for, until its
// time, and not if it was under way when all were forgotten.
func TestRights(t *testing.T) {
	const read, modify = nfsclient.AccessRead, nfsclient.AccessModify
	var c clock
	var r Rights
	alice, bob := User{UID: 1}, User{UID: 2}
	st := Stamp{Gen: c.gen()}
	if !r.Current(st) {
		t.Error("an answer to the first question is not current")
	}
	r.Remember(alice, read, read, 10)
	r.Remember(alice, modify, 0, 20)
	for _, q := range []struct {
		user       User
		want       nfsclient.AccessMask
		now        time.Duration
		got        nfsclient.AccessMask
		known      bool
		everything bool
	}{
		{user: alice, want: read, now: 9, got: read, known: true},
		{user: alice, want: modify, now: 9, known: true},
		{user: alice, want: read | modify, now: 9, got: read, known: true},
		{user: alice, want: read, now: 10},
		{user: alice, want: nfsclient.AccessExecute, now: 0},
		{user: bob, want: read, now: 0},
	} {
		if got, known := r.Granted(q.user, q.want, q.now); got != q.got || known != q.known {
			t.Errorf("user %d, rights %#x at %d: %#x, %v", q.user.UID, q.want, q.now, got, known)
		}
	}
	if got, known := r.Last(alice, read); got != read || !known {
		t.Error("the last answer is forgotten when it has expired")
	}
	late := Stamp{Gen: c.gen()}
	r.Forget(c.gen())
	if _, known := r.Last(alice, read); known || r.Current(late) {
		t.Error("rights outlive Forget")
	}
	for u := range uint32(3 * MaxUsers) {
		r.Remember(User{UID: u}, read, read, 10)
	}
	users := 0
	for g := r.first; g != nil; g = g.next {
		users++
	}
	if users > MaxUsers {
		t.Errorf("%d users are remembered", users)
	}
}
