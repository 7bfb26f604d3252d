package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Stamp is when a call was sent, by generation and by the clock: At counts from
// a moment of the caller's choice.
type Stamp struct {
	Gen uint64
	At  time.Duration
}

// Rules are what the mount's options say of files of one type.
type Rules struct {
	Type nfsclient.FileType
	// Min and Max bound the attribute timeout, acregmin to acdirmax of nfs(5).
	Min, Max time.Duration
}

// Effect is what the caller has to do, any of these together.
type Effect uint8

const (
	// RightsChanged: mode, owner or perhaps an access control list have changed:
	// nobody's rights are known.
	RightsChanged Effect = 1 << iota
	// Foreign: someone else has changed the file or directory. Data that was
	// read, names, rights and what the kernel has are of an older state.
	Foreign
)

// Node is what is known of a file or directory: its attributes, how long they stay
// fresh, and which state it is that everything cached of it agrees with. In the zero
// value nothing is known.
type Node struct {
	Attrs

	attrGen   uint64        // when Attrs were taken over
	expires   time.Duration // Attrs are fresh until then, unless invalid
	timedFrom time.Duration // when the timeout was last changed

	// ours is nil while nothing is known but of the attributes, and everything agrees
	// with them.
	ours *ours

	doubled  uint8 // how often the timeout was, from Rules.Min
	known    bool  // Attrs were set
	invalid  bool  // Attrs must not be used, however young
	relinked bool  // a link, rename or unlink of ours changed ctime, unseen
	complete bool  // of a directory: see Born
}

// ours is what became of our own changes.
type ours struct {
	chain
	changeGen uint64 // when the last change of ours ended
	relinkGen uint64 // when the last link, rename or unlink of ours ended
	changing  int    // changes of ours under way
}

var noneOurs ours

// past is n.ours to be read, but for chain: of a node without ours, all is zero.
func (n *Node) past() *ours {
	if n.ours == nil {
		return &noneOurs
	}
	return n.ours
}

// own is n.ours to be changed.
func (n *Node) own() *ours {
	if n.ours == nil {
		n.ours = &ours{chain: chain{now: n.now()}}
	}
	return n.ours
}

// now is the state that everything cached agrees with.
func (n *Node) now() nfsclient.ChangeID {
	switch {
	case n.ours != nil:
		return n.ours.now
	case !n.known:
		return nfsclient.ChangeID{}
	}
	return n.change()
}

// agree makes s the state that everything cached agrees with.
func (n *Node) agree(s nfsclient.ChangeID) {
	if n.ours != nil || s != n.now() {
		n.own().now = s
	}
}

// timeout is how long attributes are fresh now.
func (n *Node) timeout(r Rules) time.Duration { return min(r.Min<<n.doubled, r.Max) }

// Invalidate says that the attributes must not be used until new ones come.
func (n *Node) Invalidate() { n.invalid = true }

// Valid reports whether there are attributes, and they are those of some moment:
// they may have expired since, but nothing is known to have overtaken them.
func (n *Node) Valid() bool { return n.known && !n.invalid }

// Fresh reports whether the attributes are valid and have not expired.
func (n *Node) Fresh(now time.Duration) bool { return n.Valid() && now < n.expires }

// TTL is how long the attributes stay fresh.
func (n *Node) TTL(now time.Duration) time.Duration {
	if n.invalid {
		return 0
	}
	return max(0, n.expires-now)
}

// Changing reports whether changes of ours are under way.
func (n *Node) Changing() bool { return n.past().changing > 0 }

// Gen is when the attributes were taken over.
func (n *Node) Gen() uint64 { return n.attrGen }

// ChangedAfter reports whether the attributes are newer than a.
func (n *Node) ChangedAfter(a *nfsclient.Attr) bool { return n.change().After(a.Change) }

// Undisturbed reports whether no change of ours was under way since st.
func (n *Node) Undisturbed(st Stamp) bool {
	p := n.past()
	return p.changing == 0 && st.Gen > p.changeGen
}

// In reports whether the file is still in the state c, as everything cached of it is, that
// the reply to a call sent at st has shown, and we have not changed it since.
func (n *Node) In(st Stamp, c nfsclient.ChangeID) bool {
	return n.Valid() && n.Undisturbed(st) && n.change() == c && n.now() == c
}

// Agrees reports whether the reply to a call sent at st, with attributes a or
// none, is of the state that everything cached agrees with.
func (n *Node) Agrees(st Stamp, a *nfsclient.Attr) bool {
	return a != nil && n.Undisturbed(st) && a.Change == n.now()
}

// accept takes over attributes from the reply to a call sent at st, unless
// newer ones are known. When two calls overlapped, their ChangeIDs decide which reply
// is newer; where they do not, the attributes are invalid.
func (n *Node) accept(r Rules, st Stamp, gen uint64, a *nfsclient.Attr) (ok bool, e Effect) {
	if a.Type != r.Type {
		n.invalid = true // a handle does not change its type
		return false, 0
	}
	if n.known && st.Gen < n.attrGen {
		if s := n.change(); !a.Change.After(s) {
			if !s.After(a.Change) && a.Change != s {
				n.invalid = true
			}
			return false, 0
		}
	}
	return true, n.take(r, st, gen, a)
}

// take makes a the known attributes. The caller sees to it that n agrees with the
// same state as before, or another.
func (n *Node) take(r Rules, st Stamp, gen uint64, a *nfsclient.Attr) (e Effect) {
	switch {
	case !n.known || a.Change != n.change():
		n.doubled, n.timedFrom = 0, st.At
	case st.At-n.timedFrom >= n.timeout(r):
		if n.timeout(r) < r.Max {
			n.doubled++
		}
		n.timedFrom = st.At
	}
	if n.known && (a.Mode != n.Mode || a.UID != n.UID || a.GID != n.GID) {
		e = RightsChanged
	}
	n.Attrs, n.known = compact(a), true
	n.attrGen = gen
	n.expires, n.invalid = st.At+n.timeout(r), false
	return e
}

// Note handles attributes from the reply to a call sent at st that changes
// nothing. gen is drawn now.
func (n *Node) Note(r Rules, st Stamp, gen uint64, a *nfsclient.Attr) Effect {
	first, now := !n.known, n.now()
	ok, e := n.accept(r, st, gen, a)
	if !ok {
		return e
	}
	s := a.Change
	early := st.Gen < n.past().relinkGen
	if early { // it need not show that change
		n.invalid = true
	}
	switch {
	case first:
		n.agree(s)
	case s == now:
		n.relinked = n.relinked && (early || n.Changing())
	case !n.Undisturbed(st):
		// The server may have been seen between two of our own changes.
		n.invalid = true
		n.agree(now)
	case n.relinked && s.SameData(now):
		n.relinked = early
		n.agree(s)
		e |= RightsChanged // ctime may have changed for an access control list, too
	default:
		e |= n.foreign(s)
	}
	return e
}

// foreign makes s the state that everything has to agree with.
func (n *Node) foreign(s nfsclient.ChangeID) Effect {
	if n.ours != nil {
		n.ours.pairs = nil
	}
	n.agree(s)
	n.relinked, n.complete = false, false
	return Foreign | RightsChanged
}

// Begin announces a change of ours; Finish must follow.
func (n *Node) Begin() { n.own().changing++ }

// Finish ends a change of ours, sent at st, that returned w. gen is drawn now.
// With assume, a change without attributes from before it is taken to be the only
// one.
func (n *Node) Finish(r Rules, st Stamp, gen uint64, w *nfsclient.Wcc, assume bool) (e Effect) {
	n.ours.changing--
	n.ours.changeGen = gen
	if !w.After.Set || !w.Before.Set {
		n.complete = false // whether someone else came first does not show
	}
	if !w.After.Set {
		n.invalid = true
	} else {
		e = n.changed(r, st, gen, w, assume)
	}
	if n.ours.changing > 0 || !n.known {
		return e
	}
	broken := n.ours.finish()
	s, now := n.change(), n.ours.now
	switch {
	case s == now && !broken:
	case broken || s.After(now):
		e |= n.foreign(s)
	default:
		n.invalid = true
	}
	return e
}

// changed takes over what a change of ours returned.
func (n *Node) changed(r Rules, st Stamp, gen uint64, w *nfsclient.Wcc, assume bool) Effect {
	post := w.After.Change
	if !n.known {
		e := n.take(r, st, gen, &w.After.Attr)
		n.ours.now = post
		return e
	}
	switch {
	case w.Before.Set:
		pre := w.Before.ID
		n.ours.own(pre, post)
		if pre == n.change() && w.After.Type == r.Type {
			return n.take(r, st, gen, &w.After.Attr) // the direct successor, whatever the clocks say
		}
	case assume && post.MayFollow(n.ours.now):
		n.ours.own(n.ours.now, post)
	}
	_, e := n.accept(r, st, gen, &w.After.Attr)
	return e
}

// Relink says that a change of a name of ours has changed the link count and
// ctime, but not the content. Attributes show that once they come.
func (n *Node) Relink() { n.relinked, n.invalid = true, true }

// Relinked says that the call that Relink stands for has returned: the reply to a call
// sent before gen, which is drawn now, need not show the change.
func (n *Node) Relinked(gen uint64) { n.own().relinkGen = gen }

// Recall says that nothing known so far is valid, nor are replies to calls sent before
// gen, which is drawn now.
func (n *Node) Recall(gen uint64) Effect {
	o := n.own()
	n.invalid, n.complete, o.changeGen, o.relinkGen = true, false, gen, gen
	return Foreign | RightsChanged
}
