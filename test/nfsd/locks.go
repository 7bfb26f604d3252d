package nfsd

import (
	"sync"
	"time"

	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"

	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// lockTable is who has locked what. The owner of a lock is known by the client's
// address and svid, as with the Linux server: oh and caller_name do not take part.
type lockTable struct {
	mu    sync.Mutex
	files map[lockedFile]map[lockOwner]ranges.Set
	// queue is who waits for a lock, in the order in which they came. grant, if not nil,
	// is called without mu when one of them has got it; nobody waits otherwise.
	queue []*queuedLock
	grant func(*queuedLock)
	// grace: after a crash, only those who held locks before it may lock, and only
	// to reclaim. holders are their hosts; end ends it, if time does.
	grace   bool
	holders map[string]bool
	end     *time.Timer
}

type lockedFile struct {
	export uint32
	ino    uint64
}

type lockOwner struct {
	host string
	svid int32
}

// lock takes a lock, or says why not. wait, if not nil, has it wait then.
func (t *lockTable) lock(f lockedFile, o lockOwner, r ranges.Range, reclaim bool, wait *nlm.TestArgs) nlm.Stat {
	defer t.advance() // of an owner's lock for writing, one for reading may be left
	t.mu.Lock()
	defer t.mu.Unlock()
	// Linux answers so too when somebody reclaims at any other time.
	if reclaim != t.grace || reclaim && !t.holders[o.host] {
		return nlm.DeniedGracePeriod
	}
	q := &queuedLock{file: f, owner: o, r: r}
	if _, _, yes := t.conflict(f, o, r); yes {
		if wait == nil || t.grant == nil {
			return nlm.Denied
		}
		q.args = *wait
		return t.wait(q)
	}
	t.take(q)
	t.unqueue(q)
	return nlm.Granted
}

// take gives a lock to its owner. mu is held.
func (t *lockTable) take(q *queuedLock) {
	if t.files == nil {
		t.files = map[lockedFile]map[lockOwner]ranges.Set{}
	}
	if t.files[q.file] == nil {
		t.files[q.file] = map[lockOwner]ranges.Set{}
	}
	t.files[q.file][q.owner] = t.files[q.file][q.owner].Lock(q.r)
}

// conflict finds a lock of another owner. mu is held.
func (t *lockTable) conflict(f lockedFile, o lockOwner, r ranges.Range) (lockOwner, ranges.Range, bool) {
	for other, set := range t.files[f] {
		if other == o {
			continue
		}
		if with, yes := set.Conflict(r); yes {
			return other, with, true
		}
	}
	return lockOwner{}, ranges.Range{}, false
}

func (t *lockTable) test(f lockedFile, o lockOwner, r ranges.Range) (nlm.Stat, lockOwner, ranges.Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grace {
		return nlm.DeniedGracePeriod, lockOwner{}, ranges.Range{}
	}
	if other, with, yes := t.conflict(f, o, r); yes {
		return nlm.Denied, other, with
	}
	return nlm.Granted, lockOwner{}, ranges.Range{}
}

func (t *lockTable) unlock(f lockedFile, o lockOwner, first, last uint64) nlm.Stat {
	defer t.advance()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grace {
		return nlm.DeniedGracePeriod
	}
	t.drop(f, o, first, last)
	return nlm.Granted
}

// drop takes a range from an owner. mu is held.
func (t *lockTable) drop(f lockedFile, o lockOwner, first, last uint64) {
	owners := t.files[f]
	if owners == nil {
		return
	}
	if owners[o] = owners[o].Unlock(first, last); len(owners[o]) == 0 {
		delete(owners, o)
	}
	if len(owners) == 0 {
		delete(t.files, f)
	}
}

// freeAll takes all that a host has.
func (t *lockTable) freeAll(host string) {
	defer t.advance()
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, owners := range t.files {
		for o := range owners {
			if o.host == host {
				t.drop(f, o, 0, ranges.End)
			}
		}
	}
}

// crash forgets all locks, and begins a grace period: none if d is 0, until
// endGrace if it is negative.
func (t *lockTable) crash(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.holders = map[string]bool{}
	for _, owners := range t.files {
		for o := range owners {
			t.holders[o.host] = true
		}
	}
	t.files, t.queue = nil, nil
	t.grace = d != 0
	if d > 0 {
		t.end = time.AfterFunc(d, t.endGrace)
	}
}

func (t *lockTable) endGrace() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.grace = false
}

// stop stops the timer. mu is held.
func (t *lockTable) stop() {
	if t.end != nil {
		t.end.Stop()
		t.end = nil
	}
}

func (t *lockTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

// count is how many ranges are locked in all.
func (t *lockTable) count() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, owners := range t.files {
		for _, set := range owners {
			n += len(set)
		}
	}
	return n
}
