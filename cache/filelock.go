package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rdmafs/rdmafs/cache/locks"
	"github.com/rdmafs/rdmafs/nfsclient"
)

var (
	// ErrNoLocks: the server takes no locks from this mount (ENOLCK).
	ErrNoLocks = fmt.Errorf("cache: locks cannot be had of the server: %w", syscall.ENOLCK)
	// ErrDeadlock: owners of this mount would wait for each other (EDEADLK).
	ErrDeadlock = fmt.Errorf("cache: deadlock: %w", syscall.EDEADLK)
	// ErrLockLost: the server has lost a lock that was taken through this opening
	// (EIO).
	ErrLockLost = fmt.Errorf("cache: the server has lost a lock of this file: %w", syscall.EIO)
)

// everything is the range of flock(2), and of what a close gives up.
var everything = nfsclient.Lock{Last: math.MaxUint64}

// LockRequest is what a program asks for.
type LockRequest struct {
	Owner nfsclient.LockOwner
	PID   uint32
	Lock  nfsclient.Lock
	// Wait: it waits for who has a conflicting lock.
	Wait bool
	// Flock: it is of flock(2).
	Flock bool
}

// fileLocks are the locks of a mount.
type fileLocks struct {
	// files is how many files somebody has tried to lock and still has open: most calls
	// need no more of this.
	files atomic.Int64
	// ever: known is not empty.
	ever atomic.Bool

	mu    sync.Mutex
	table locks.Table
	users map[nfsclient.Handle]lockUsers
	// known are files that were locked, see LockedBefore.
	known map[nfsclient.Handle]struct{}
}

// lockUsers are the owners that have asked for a lock of a file.
type lockUsers map[nfsclient.LockOwner]*lockUser

type lockUser struct {
	through map[*File]struct{} // the openings through which it has
	lost    bool               // the server has lost a lock of it
}

// maxKnownLocked bounds fileLocks.known. Beyond, it starts anew.
const maxKnownLocked = 1 << 14

// lockCall is a request on its way.
type lockCall struct {
	locks.Request
	turn   chan struct{} // capacity 1: it is not queued any more
	cancel context.CancelFunc
}

// carry tells those concerned; mu is held.
func (x *fileLocks) carry(e locks.Effects) {
	for _, r := range e.Changed {
		r.User.(*lockCall).turn <- struct{}{}
	}
	for _, r := range e.Interrupt {
		r.User.(*lockCall).cancel()
	}
}

// use remembers that an owner locks through f.
func (x *fileLocks) use(f *File, owner nfsclient.LockOwner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := f.i.h
	if x.known == nil || len(x.known) >= maxKnownLocked {
		x.known = map[nfsclient.Handle]struct{}{}
		x.ever.Store(true)
	}
	if x.users == nil {
		x.users = map[nfsclient.Handle]lockUsers{}
	}
	x.known[h] = struct{}{}
	u := x.users[h]
	if u == nil {
		u = lockUsers{}
		x.users[h] = u
		x.files.Add(1)
	}
	if u[owner] == nil {
		u[owner] = &lockUser{through: map[*File]struct{}{}}
	}
	u[owner].through[f] = struct{}{}
}

// leave forgets that owners lock through f, and returns those that do through
// nothing else.
func (x *fileLocks) leave(f *File) (ended []nfsclient.LockOwner) {
	if x.files.Load() == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.users[f.i.h]
	for owner, user := range u {
		if _, used := user.through[f]; !used {
			continue
		}
		if delete(user.through, f); len(user.through) == 0 {
			delete(u, owner)
			ended = append(ended, owner)
		}
	}
	if u != nil && len(u) == 0 {
		delete(x.users, f.i.h)
		x.files.Add(-1)
	}
	return ended
}

// busy says whether an owner has locks in a range, or asks for some.
func (x *fileLocks) busy(h nfsclient.Handle, owner nfsclient.LockOwner, l nfsclient.Lock) (busy, written bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, held := range x.table.Holds(h, owner) {
		written = written || held.Exclusive
	}
	return x.table.Busy(h, owner, l), written
}

// LockedBefore reports whether somebody has locked i, as far as is known: the
// kernel should say when a descriptor of such a file is closed, though nothing was
// written through it.
func (c *Cache) LockedBefore(i *Inode) bool {
	x := &c.locks
	if !x.ever.Load() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_, known := x.known[i.h]
	return known
}

// locker is who takes locks at the server.
func (c *Cache) locker() (nfsclient.Locker, error) {
	if l, ok := c.cl.(nfsclient.Locker); ok {
		return l, nil
	}
	return nil, ErrNoLocks
}

// lockError is what a program is told of an error of the server's.
func lockError(err error) error {
	if errors.Is(err, nfsclient.ErrNotSupported) {
		return ErrNoLocks
	}
	return err
}

// TestLock returns a lock that conflicts with r's, and whose it is if that is a
// process of this mount.
func (f *File) TestLock(ctx context.Context, r LockRequest) (conflict *nfsclient.Lock, pid uint32, err error) {
	locker, err := f.c.locker()
	if err != nil {
		return nil, 0, err
	}
	x := &f.c.locks
	x.mu.Lock()
	held, found := x.table.Conflicting(f.i.h, r.Owner, r.Lock)
	x.mu.Unlock()
	if found {
		return &held.Lock, held.PID, nil
	}
	conflict, err = locker.TestLock(ctx, f.cr, f.i.h, f.open.server(), r.Owner, r.Lock)
	return conflict, 0, lockError(err)
}

// SetLock takes a lock, changes the type of one or gives one up: first among the
// owners of this mount, then at the server. What was written is on the server's
// stable storage before, and what is read afterwards is what the server has then.
// Once ctx ends it returns its error, and the lock is not taken; what is given up,
// is all the same.
func (f *File) SetLock(ctx context.Context, r LockRequest) error {
	if _, err := f.c.locker(); err != nil {
		return err
	}
	if r.Lock.Type == nfsclient.Unlocked {
		return f.unlock(ctx, r.Owner, r.Lock, true)
	}
	f.c.locks.use(f, r.Owner)
	if err := f.i.settle(ctx); err != nil {
		return err
	}
	if err := f.takeLock(ctx, r); err != nil {
		return lockError(err)
	}
	f.relearn(ctx)
	return nil
}

// takeLock is SetLock without what it means for the cache. One by flock(2) that has
// to wait gives up first what its owner has, as there: two that share a lock could
// else wait for each other without end.
func (f *File) takeLock(ctx context.Context, r LockRequest) error {
	x := &f.c.locks
	if busy, _ := x.busy(f.i.h, r.Owner, r.Lock); busy && r.Flock && r.Wait {
		at := r
		at.Wait = false
		if err := f.takeLock(ctx, at); !errors.Is(err, nfsclient.ErrLocked) {
			return err
		}
		if err := f.unlock(ctx, r.Owner, r.Lock, true); err != nil {
			return err
		}
	}
	for {
		again, err := f.tryLock(ctx, &r)
		if !again {
			return err
		}
	}
}

// tryLock asks for a lock once. again says that it had to give way to another
// request of its owner.
func (f *File) tryLock(ctx context.Context, r *LockRequest) (again bool, err error) {
	x := &f.c.locks
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	q := &lockCall{turn: make(chan struct{}, 1), cancel: cancel}
	q.Request = locks.Request{Owner: r.Owner, Lock: r.Lock, PID: r.PID, Wait: r.Wait, Flock: r.Flock, User: q}
	if err := x.enter(ctx, f.i.h, q); err != nil {
		return false, err
	}
	locker, _ := f.c.locker()
	err = locker.SetLock(ctx, f.cr, f.i.h, f.open.server(), r.Owner, r.Lock)
	if r.Wait && errors.Is(err, nfsclient.ErrLocked) {
		x.mu.Lock()
		x.carry(x.table.Poll(&q.Request))
		x.mu.Unlock()
		err = locker.WaitLock(waiting, f.cr, f.i.h, f.open.server(), r.Owner, r.Lock)
	}
	x.finish(f.i.h, q, err == nil)
	return err != nil && waiting.Err() != nil && ctx.Err() == nil, err
}

// enter returns when a request may go.
func (x *fileLocks) enter(ctx context.Context, h nfsclient.Handle, q *lockCall) error {
	x.mu.Lock()
	x.carry(x.table.Submit(h, &q.Request))
	queued := q.State == locks.Queued
	x.mu.Unlock()
	if queued {
		select {
		case <-q.turn:
		case <-ctx.Done():
			if !x.withdraw(q) {
				<-q.turn
				if q.State == locks.Going {
					x.finish(h, q, false)
				}
			}
			return ctx.Err()
		}
	}
	switch q.State { // it changes only if it is queued
	case locks.Refused:
		return nfsclient.ErrLocked
	case locks.Deadlocked:
		return ErrDeadlock
	}
	return nil
}

// withdraw reports whether q was queued, and is not any more.
func (x *fileLocks) withdraw(q *lockCall) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q.State != locks.Queued {
		return false
	}
	x.carry(x.table.Withdraw(&q.Request))
	return true
}

// finish ends a request that went. An owner that has no lock then, and asks for none,
// has lost none.
func (x *fileLocks) finish(h nfsclient.Handle, q *lockCall, granted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.carry(x.table.Finish(&q.Request, granted))
	u := x.users[h]
	user := u[q.Owner]
	if user == nil || !user.lost || len(x.table.Holds(h, q.Owner)) > 0 || x.table.Takes(h, q.Owner) {
		return
	}
	user.lost = false
	for f := range user.through {
		f.lockLost.Store(u.lostThrough(f)) // another owner may share it
	}
}

// settle returns when everything written before is stable, as far as it can be.
func (i *Inode) settle(ctx context.Context) error {
	i.mu.Lock()
	clean := i.wb.Empty()
	i.mu.Unlock()
	if clean {
		return nil
	}
	return i.sync(ctx)
}

// relearn makes everybody read anew what another client may have written before it
// gave up the lock that was just taken. Attributes need not show that: a server's
// clock ticks some hundred times a second. What cannot be learned now is not
// believed, and asked for when it is needed.
func (f *File) relearn(ctx context.Context) {
	i, c := f.i, f.c
	i.mu.Lock()
	i.detachSpans(0, maxOffset)
	i.node.Invalidate()
	i.doubt()
	i.mu.Unlock()
	_ = c.revalidate(ctx, f.cr, i)
	c.clear(c.life, i) // whatever becomes of ctx: the lock is taken
}

// Unlock gives up what an owner has of the file, as close(2) does with POSIX
// locks.
func (f *File) Unlock(ctx context.Context, owner nfsclient.LockOwner) error {
	if f.c.locks.files.Load() == 0 {
		return nil
	}
	return f.unlock(ctx, owner, everything, false)
}

// ReleaseLocks gives up what was locked through f, and through no other opening, as
// the last close does: with flock(2), locks of open file descriptions, and where the
// kernel has not said who closes. Release must follow.
func (f *File) ReleaseLocks() {
	for _, owner := range f.c.locks.leave(f) {
		_ = f.unlock(f.c.life, owner, everything, false) // it has logged what failed
	}
}

// unlock gives up a range, after what was written is safe on the server. It is done
// even if ctx ends first. With pages, the kernel first writes what was stored through
// mappings.
func (f *File) unlock(ctx context.Context, owner nfsclient.LockOwner, l nfsclient.Lock, pages bool) error {
	i, c := f.i, f.c
	l.Type = nfsclient.Unlocked
	busy, written := c.locks.busy(i.h, owner, l)
	if !busy {
		return nil
	}
	done := make(chan error, 1)
	i.refs.Add(1)
	f.open.hold()
	if !c.spawn(func() { i.runUnlock(c.life, f, owner, l, pages && written, done) }) {
		f.open.release()
		i.unpin()
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runUnlock is what unlock does; Close joins it.
func (i *Inode) runUnlock(ctx context.Context, f *File, owner nfsclient.LockOwner, l nfsclient.Lock, pages bool, done chan<- error) {
	defer i.unpin()
	defer f.open.release()
	done <- i.giveUp(ctx, f, owner, l, pages)
}

func (i *Inode) giveUp(ctx context.Context, f *File, owner nfsclient.LockOwner, l nfsclient.Lock, pages bool) error {
	c := i.c
	if pages {
		i.mu.Lock()
		i.doubt()
		i.mu.Unlock()
		c.clear(ctx, i)
	}
	if err := i.settle(ctx); err != nil {
		return err
	}
	q := &lockCall{turn: make(chan struct{}, 1), cancel: func() {}}
	q.Request = locks.Request{Owner: owner, Lock: l, Wait: true, User: q}
	if err := c.locks.enter(ctx, i.h, q); err != nil {
		return err
	}
	locker, _ := c.locker()
	err := locker.SetLock(ctx, f.cr, i.h, f.open.server(), owner, l)
	c.locks.finish(i.h, q, true)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn(fmt.Sprintf("cache: a lock of %s may still be held at the server: %v", c.path(i), err))
	}
	return lockError(err)
}

// lostThrough reports whether an owner that locks through f has lost a lock.
func (u lockUsers) lostThrough(f *File) bool {
	for _, user := range u {
		if _, used := user.through[f]; used && user.lost {
			return true
		}
	}
	return false
}

// lose says that the server has lost locks of a file: of one owner, or of all if that
// is nil. Those who have some may not read or write what they believe to be theirs, nor
// those whose request is under way: it may have been granted before. It reports whether
// there are any.
func (x *fileLocks) lose(h nfsclient.Handle, owner *nfsclient.LockOwner) (any bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for o, user := range x.users[h] {
		if owner != nil && o != *owner || len(x.table.Holds(h, o)) == 0 && !x.table.Takes(h, o) {
			continue
		}
		any, user.lost = true, true
		for f := range user.through {
			f.lockLost.Store(true)
		}
	}
	return any
}

// lockLost handles Lost for locks, and reports whether that is what was lost.
func (c *Cache) lockLost(i *Inode, owner *nfsclient.LockOwner, err error) bool {
	if owner == nil && !c.LockedBefore(i) {
		return false
	}
	if !c.locks.lose(i.h, owner) {
		return true // it was given up meanwhile
	}
	c.cfg.Log.Error(fmt.Sprintf("cache: the server has lost a lock of %s: who has it reads and writes there no more: %v", c.path(i), err))
	i.mu.Lock()
	i.detachSpans(0, maxOffset)
	i.node.Invalidate()
	i.doubt()
	i.mu.Unlock()
	return true
}
