package nfsd

import (
	"slices"

	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// queuedLock is a lock that its owner waits for.
type queuedLock struct {
	file  lockedFile
	owner lockOwner
	r     ranges.Range
	// args are those of GRANTED.
	args nlm.TestArgs
}

func (q *queuedLock) same(o *queuedLock) bool {
	return q.file == o.file && q.owner == o.owner && q.r == o.r
}

// wait queues a lock, unless it waits already, or its owner would wait for itself. mu
// is held.
func (t *lockTable) wait(q *queuedLock) nlm.Stat {
	if t.deadlock(q, map[lockOwner]bool{}, q.owner) {
		return nlm.Deadlock
	}
	if !slices.ContainsFunc(t.queue, q.same) {
		t.queue = append(t.queue, q)
	}
	return nlm.Blocked
}

// deadlock reports whether q waits, over any number of others, for owner. mu is held.
func (t *lockTable) deadlock(q *queuedLock, seen map[lockOwner]bool, owner lockOwner) bool {
	for o, set := range t.files[q.file] {
		if _, yes := set.Conflict(q.r); !yes || o == q.owner || seen[o] {
			continue
		}
		if o == owner {
			return true
		}
		seen[o] = true
		for _, next := range t.queue {
			if next.owner == o && t.deadlock(next, seen, owner) {
				return true
			}
		}
	}
	return false
}

// unqueue has a lock not wait any more, and reports whether it did. mu is held.
func (t *lockTable) unqueue(q *queuedLock) bool {
	n := len(t.queue)
	t.queue = slices.DeleteFunc(t.queue, q.same)
	return len(t.queue) < n
}

// cancel is CANCEL.
func (t *lockTable) cancel(f lockedFile, o lockOwner, r ranges.Range) nlm.Stat {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grace {
		return nlm.DeniedGracePeriod
	}
	if t.unqueue(&queuedLock{file: f, owner: o, r: r}) {
		return nlm.Granted
	}
	return nlm.Denied
}

// advance gives what is free to those who wait for it, the first first.
func (t *lockTable) advance() {
	for q := t.next(); q != nil; q = t.next() {
		t.grant(q)
	}
}

func (t *lockTable) next() *queuedLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queue {
		if _, _, yes := t.conflict(q.file, q.owner, q.r); !yes {
			t.unqueue(q)
			t.take(q)
			return q
		}
	}
	return nil
}

// unwanted takes a lock back that was granted to who does not want it.
func (t *lockTable) unwanted(q *queuedLock) {
	defer t.advance()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(q.file, q.owner, q.r.First, q.r.Last)
}

// waiting is how many locks are waited for.
func (t *lockTable) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

// hosts are those that held locks before the crash.
func (t *lockTable) hosts() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.holders {
		all = append(all, h)
	}
	return all
}
