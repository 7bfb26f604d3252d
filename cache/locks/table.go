package locks

import (
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// State is where a request stands.
type State uint8

const (
	// New requests are not in the table: not submitted yet, withdrawn, or finished.
	New State = iota
	// Queued requests wait for others of this mount.
	Queued
	// Going requests are asked of the server now.
	Going
	// Polling requests wait at the server for an owner elsewhere.
	Polling
	// Refused requests were not to wait, and an owner of this mount has a conflicting
	// lock. They are not in the table any more.
	Refused
	// Deadlocked requests would have waited for an owner that waits for theirs, over any
	// number of others. They are not in the table any more.
	Deadlocked
)

// Request is to take a lock, to change the type of one, or to give one up.
type Request struct {
	Owner Owner
	Lock  Lock
	// PID is the process that asks.
	PID uint32
	// Wait: it waits for who has a conflicting lock.
	Wait bool
	// Flock: it is of flock(2), which looks for no deadlock.
	Flock bool

	// State is the Table's, as is the file.
	State State
	file  *file

	// User is the Table's user's.
	User any
}

func (r *Request) unlocks() bool { return r.Lock.Type == nfsclient.Unlocked }

// Held is a lock that an owner has.
type Held struct {
	Owner Owner
	PID   uint32
	Lock  Lock
}

// Effects are what the Table's user has to do.
type Effects struct {
	// Changed requests were queued, and are not any more.
	Changed []*Request
	// Interrupt: these wait at the server, and another request of the same owner cannot go
	// before they do not. They are to be finished, and submitted again unless granted.
	Interrupt []*Request
}

// Table has the locks of a mount. The zero value has none.
type Table struct {
	files map[nfsclient.Handle]*file
	// waits are the requests of owners that wait.
	waits map[Owner][]*Request
}

type file struct {
	h     nfsclient.Handle
	held  map[Owner]*holder
	going []*Request // going and polling
	queue []*Request // queued, in order
}

type holder struct {
	pid   uint32
	locks ranges.Set
}

// Submit enters a new request. Its state says what becomes of it.
func (t *Table) Submit(h nfsclient.Handle, r *Request) (e Effects) {
	f := t.files[h]
	if f == nil {
		if t.files == nil {
			t.files, t.waits = map[nfsclient.Handle]*file{}, map[Owner][]*Request{}
		}
		f = &file{h: h, held: map[Owner]*holder{}}
		t.files[h] = f
	}
	r.file = f
	t.judge(r, &e)
	if r.State == Queued {
		f.queue = append(f.queue, r)
		t.waits[r.Owner] = append(t.waits[r.Owner], r)
	}
	t.tidy(f)
	return e
}

// Poll says that a going request waits at the server from now on.
func (t *Table) Poll(r *Request) (e Effects) {
	r.State = Polling
	t.waits[r.Owner] = append(t.waits[r.Owner], r)
	t.sweep(r.file, &e)
	return e
}

// Finish ends a going or polling request. granted says that the server has done what
// it asks for; what was given up is not held in any case.
func (t *Table) Finish(r *Request, granted bool) (e Effects) {
	f := r.file
	if r.State == Polling {
		t.stopWaiting(r)
	}
	f.going = remove(f.going, r)
	r.State = New
	if granted && !r.unlocks() {
		o := f.held[r.Owner]
		if o == nil {
			o = &holder{}
			f.held[r.Owner] = o
		}
		o.pid, o.locks = r.PID, set(o.locks, r.Lock)
	}
	t.sweep(f, &e)
	t.tidy(f)
	return e
}

// Withdraw takes a queued request back.
func (t *Table) Withdraw(r *Request) (e Effects) {
	f := r.file
	f.queue = remove(f.queue, r)
	t.stopWaiting(r)
	r.State = New
	t.sweep(f, &e)
	t.tidy(f)
	return e
}

// Conflicting is the first lock of another owner of this mount that conflicts with
// l.
func (t *Table) Conflicting(h nfsclient.Handle, owner Owner, l Lock) (first Held, ok bool) {
	f := t.files[h]
	if f == nil {
		return first, false
	}
	for o, has := range f.held {
		if o == owner {
			continue
		}
		if held, with := against(has.locks, l); with && (!ok || held.First < first.Lock.First) {
			first, ok = Held{o, has.pid, lockOf(held)}, true
		}
	}
	return first, ok
}

// Holds is what an owner holds of a file. It must not be changed.
func (t *Table) Holds(h nfsclient.Handle, owner Owner) ranges.Set {
	if f := t.files[h]; f != nil && f.held[owner] != nil {
		return f.held[owner].locks
	}
	return nil
}

// Busy reports whether an owner holds something in a range of a file, or asks for it.
func (t *Table) Busy(h nfsclient.Handle, owner Owner, l Lock) bool {
	f := t.files[h]
	if f == nil {
		return false
	}
	in := func(r *Request) bool { return r.Owner == owner && overlap(r.Lock, l) }
	if slices.ContainsFunc(f.going, in) {
		return true
	}
	o := f.held[owner]
	return o != nil && slices.ContainsFunc(o.locks, func(held ranges.Range) bool { return held.Overlaps(l.First, l.Last) })
}

// Takes reports whether the server has been asked for a lock for an owner, and may have
// granted it.
func (t *Table) Takes(h nfsclient.Handle, owner Owner) bool {
	f := t.files[h]
	return f != nil && slices.ContainsFunc(f.going, func(r *Request) bool { return r.Owner == owner && !r.unlocks() })
}

// Files is how many files have locks, or requests for them.
func (t *Table) Files() int { return len(t.files) }

// judge decides whether a request may go; the caller takes it out of the queue if
// so.
func (t *Table) judge(r *Request, e *Effects) {
	f := r.file
	held := false
	if !r.unlocks() {
		if _, held = t.Conflicting(f.h, r.Owner, r.Lock); held && !r.Wait {
			r.State = Refused
			return
		}
	}
	must := held
	for _, g := range f.going {
		if !overlap(g.Lock, r.Lock) {
			continue
		}
		switch {
		case g.Owner == r.Owner && g.State == Polling && !(r.Wait && !r.unlocks()):
			must = true
			e.Interrupt = append(e.Interrupt, g)
		case g.Owner == r.Owner:
			must = true
		case g.unlocks():
			must = must || !r.unlocks()
		case g.State == Polling:
			must = must || r.Wait && conflict(g.Lock, r.Lock)
		default:
			must = must || conflict(g.Lock, r.Lock)
		}
	}
	switch {
	case held && t.deadlock(r):
		r.State = Deadlocked
	case must:
		r.State = Queued
	default:
		t.start(r)
	}
}

// start lets a request go. What it gives up is not held any more.
func (t *Table) start(r *Request) {
	f := r.file
	r.State = Going
	f.going = append(f.going, r)
	o := f.held[r.Owner]
	if !r.unlocks() || o == nil {
		return
	}
	if o.locks = set(o.locks, r.Lock); len(o.locks) == 0 {
		delete(f.held, r.Owner)
	}
}

// sweep judges anew who waits, in order.
func (t *Table) sweep(f *file, e *Effects) {
	queue := f.queue
	f.queue = nil
	for _, r := range queue {
		if t.judge(r, e); r.State == Queued {
			f.queue = append(f.queue, r)
			continue
		}
		t.stopWaiting(r)
		e.Changed = append(e.Changed, r)
	}
}

// deadlock reports whether r would wait for an owner that waits for r's: over the
// locks of this mount, and not over those of flock(2).
func (t *Table) deadlock(r *Request) bool {
	if r.Flock {
		return false
	}
	seen := map[Owner]bool{}
	var reaches func(*Request) bool
	reaches = func(w *Request) bool {
		for o, has := range w.file.held {
			if _, with := against(has.locks, w.Lock); o == w.Owner || seen[o] || !with {
				continue
			}
			if o == r.Owner {
				return true
			}
			seen[o] = true
			for _, next := range t.waits[o] {
				if !next.Flock && reaches(next) {
					return true
				}
			}
		}
		return false
	}
	return reaches(r)
}

func (t *Table) stopWaiting(r *Request) {
	if left := remove(t.waits[r.Owner], r); len(left) > 0 {
		t.waits[r.Owner] = left
	} else {
		delete(t.waits, r.Owner)
	}
}

// tidy forgets a file without locks and requests.
func (t *Table) tidy(f *file) {
	if len(f.held)+len(f.going)+len(f.queue) == 0 {
		delete(t.files, f.h)
	}
}

func remove(from []*Request, r *Request) []*Request {
	if k := slices.Index(from, r); k >= 0 {
		return slices.Delete(from, k, k+1)
	}
	return from
}

// Waiting is how many requests wait, here or at the server.
func (t *Table) Waiting() (n int) {
	for _, all := range t.waits {
		n += len(all)
	}
	return n
}
