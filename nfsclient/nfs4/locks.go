package nfs4

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// lockKey is an owner of locks in one file.
type lockKey struct {
	h     nfsclient.Handle
	owner nfsclient.LockOwner
}

// lockState is what one owner has locked in one file.
type lockState struct {
	lockKey
	// name is the protocol's lock-owner. It is this state's own, and not the user's in all of his
	// files: nfs-ganesha binds a lock-owner to the first open-owner that it comes with, and
	// answers RESOURCE with any other.
	name uint64
	// turn is held by who makes a call for the owner.
	turn turn

	// Guarded by stateTable.mu; open and known are written by who has the turn, or in a recovery:
	// open is the opening through which the lock stateid was made, sid that stateid, if known. through are other openings, not closed yet,
	// through which its owner has locked since; usually nil.
	open    *openState
	through map[*openState]struct{}
	sid     wire.Stateid
	known   bool
	set     ranges.Set
	// losses counts how often locks of this owner were lost; told is closed when the Watcher has been
	// told of the last, and then nil.
	losses uint64
	told   chan struct{}
}

// lockLoss is a loss of an owner's locks, of which the Watcher is to be told.
type lockLoss struct {
	lockKey
	told chan struct{}
}

// ErrLockLost is the error of Watcher.Lost for a lock that the server has lost.
var ErrLockLost = fmt.Errorf("the server has lost the lock: %w", syscall.EIO)

// lockOwner is the protocol's lock-owner. The client's ID tells its owners from other clients'.
func (c *Client) lockOwner(name uint64) wire.Owner {
	b := append([]byte("lock "), binary.BigEndian.AppendUint64(nil, name)...)
	return wire.Owner{ClientID: wire.ClientID(c.ses.ClientID()), Owner: string(b)}
}

func lockType(exclusive bool) wire.LockType {
	if exclusive {
		return wire.WriteLock
	}
	return wire.ReadLock
}

// length is that of a range in the protocol, where all ones mean to the end.
func length(first, last uint64) uint64 {
	if last == ranges.End {
		return wire.ToEnd
	}
	return last - first + 1
}

// enter finds or makes the state of an owner, and gives the caller its turn.
func (c *Client) enter(ctx context.Context, k lockKey) (*lockState, error) {
	t := &c.state
	for {
		t.mu.Lock()
		l := t.locks[k]
		if l == nil {
			l = &lockState{lockKey: k, name: c.lockers.Add(1), turn: make(turn, 1)}
			t.locks[k] = l
		}
		t.mu.Unlock()
		if err := l.turn.take(ctx); err != nil {
			return nil, err
		}
		t.mu.Lock()
		current := t.locks[k] == l
		t.mu.Unlock()
		if current {
			return l, nil
		}
		l.turn.leave() // a CLOSE has dropped it meanwhile
	}
}

func (l *lockState) leave() { l.turn.leave() }

// SetLock implements nfsclient.Locker.
func (c *Client) SetLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	o, err := opening(st)
	if err != nil {
		return err
	}
	if l.First > l.Last {
		return &nfsclient.Error{Op: "LOCK", Status: nfsclient.ErrInval}
	}
	return c.setLock(ctx, cr, lockKey{h, owner}, o, l, false)
}

// setLock is SetLock. With wait the server is told that the lock is waited for.
func (c *Client) setLock(ctx context.Context, cr nfsclient.Cred, k lockKey, o *openState, l nfsclient.Lock, wait bool) error {
	if l.Type == nfsclient.Unlocked {
		return c.surely(ctx, func(ctx context.Context) error {
			defer c.dropIdle(k)
			defer c.closeLingering(ctx, k.h)
			return settle(c.unlock(ctx, cr, k, l.First, l.Last))
		}, nil)
	}
	if o == nil {
		return fmt.Errorf("LOCK: the file is not open: %w", syscall.EBADF)
	}
	var before ranges.Set
	return c.finish(ctx, func(ctx context.Context) (err error) {
		defer c.dropIdle(k)
		if err := c.openAtServer(ctx, o); err != nil {
			return settle(err)
		}
		before, err = c.lock(ctx, cr, k, o, ranges.Range{First: l.First, Last: l.Last, Exclusive: l.Type == nfsclient.WriteLock}, wait)
		if err == nil {
			c.awaitTold(k)
		}
		return settle(err)
	}, func(ctx context.Context) {
		c.restore(ctx, cr, k, o, l, before)
		c.dropIdle(k)
	})
}

// restore takes back a lock whose caller does not want it any more: what was held before in its
// range is held again.
func (c *Client) restore(ctx context.Context, cr nfsclient.Cred, k lockKey, o *openState, l nfsclient.Lock, before ranges.Set) {
	gaps := ranges.Set(nil).Lock(ranges.Range{First: l.First, Last: l.Last})
	var err error
	for _, r := range before {
		if !r.Overlaps(l.First, l.Last) {
			continue
		}
		r.First, r.Last = max(r.First, l.First), min(r.Last, l.Last)
		gaps = gaps.Unlock(r.First, r.Last)
		_, lerr := c.lock(ctx, cr, k, o, r, false)
		err = errors.Join(err, lerr)
	}
	for _, g := range gaps {
		err = errors.Join(err, c.unlock(ctx, cr, k, g.First, g.Last))
	}
	if err != nil {
		c.cf.Log.Info(fmt.Sprintf("%s: taking back a lock: %v", c.cf.Host, settle(err)))
	}
}

// lock takes a lock, and returns what the owner had before.
func (c *Client) lock(ctx context.Context, cr nfsclient.Cred, k lockKey, o *openState, r ranges.Range, wait bool) (before ranges.Set, err error) {
	for tries := 0; ; tries++ {
		before, narrow, err := c.lockTurn(ctx, cr, k, o, r, wait)
		if narrow == nil || tries == maxRevive {
			return before, err
		}
		if err := c.widen(ctx, narrow, o.access); err != nil {
			return nil, err
		}
	}
}

// lockTurn is lock in one turn of the owner's. narrow, with an error, is the opening that does not permit the lock, see widen.
func (c *Client) lockTurn(ctx context.Context, cr nfsclient.Cred, k lockKey, o *openState, r ranges.Range, wait bool) (before ranges.Set, narrow *openState, err error) {
	l, err := c.enter(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	defer l.leave()
	t := &c.state
	for tries := 0; ; tries++ {
		t.mu.Lock()
		dead := c.move(l, o)
		t.mu.Unlock()
		c.free(dead)
		op := &wire.Lock{Type: waitType(r.Exclusive, wait), Offset: r.First, Length: length(r.First, r.Last)}
		q := &request{op: "LOCK", at: 1}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: k.h}, op}, true
		var losses uint64
		q.Prepare = func() error {
			t.mu.Lock()
			defer t.mu.Unlock()
			losses = l.losses
			op.New = !l.known
			switch {
			case l.known:
				op.LockStateid = l.sid.Latest()
			case o.lost != nil:
				return o.lost
			case o.stale:
				return errStale
			default:
				op.OpenStateid, op.Owner = o.sid.Latest(), c.lockOwner(l.name) // it may be widened meanwhile
			}
			return nil
		}
		err := c.do(ctx, cr, q)
		if err != nil && isLost(err) && tries < maxRevive {
			if err := c.findOut(ctx, l, o, op); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			if q.Status == wire.ErrOpenMode && !op.New {
				narrow = c.narrower(l, o)
			}
			return nil, narrow, err
		}
		t.mu.Lock()
		if l.losses != losses && tries < maxRevive {
			t.mu.Unlock() // the server has restarted behind its answer, and the lock may be gone
			continue
		}
		before = l.set
		l.use(o)
		l.sid, l.known = op.Stateid, true
		l.set = l.set.Lock(r)
		t.mu.Unlock()
		return before, nil, nil
	}
}

// findOut handles an answer to LOCK by which the server does not know the stateid that op carried.
func (c *Client) findOut(ctx context.Context, l *lockState, o *openState, op *wire.Lock) error {
	if op.New {
		return c.revive(ctx, o, op.OpenStateid)
	}
	t := &c.state
	t.mu.Lock()
	var gone []lockLoss
	var dead []wire.Stateid
	if l.known && l.sid.Other == op.LockStateid.Other {
		gone, dead = l.lose(nil), []wire.Stateid{l.sid}
	}
	t.mu.Unlock()
	c.tellLost(gone)
	c.free(dead)
	return nil
}

// lose forgets what the owner had; stateTable.mu is held.
func (l *lockState) lose(gone []lockLoss) []lockLoss {
	if len(l.set) > 0 {
		l.told = make(chan struct{})
		gone = append(gone, lockLoss{l.lockKey, l.told})
	}
	l.known, l.set, l.open, l.through = false, nil, nil, nil
	l.losses++
	return gone
}

// loseLocks is lose for all that was locked through o; mu is held.
func (t *stateTable) loseLocks(o *openState) (gone []lockLoss) {
	for _, l := range t.locks {
		if l.open == o {
			gone = l.lose(gone)
		}
	}
	return gone
}

// tellLost has the Watcher told of lost locks, on a goroutine of its own: it may make calls that wait
// for a recovery, or for a turn.
func (c *Client) tellLost(gone []lockLoss) {
	if len(gone) > 0 && !c.state.spawn(&c.running, func() { c.runTell(gone) }) {
		for _, g := range gone {
			close(g.told) // nobody is there any more to hear it
		}
	}
}

func (c *Client) runTell(gone []lockLoss) {
	for i := range gone {
		c.cf.Log.Warn(fmt.Sprintf("%s: the server has lost a lock of a file", c.cf.Host))
		c.watcher.lost(gone[i].h, &gone[i].owner, ErrLockLost)
		close(gone[i].told)
		c.toldOf(&gone[i])
	}
}

// toldOf notes that the Watcher has been told of a loss.
func (c *Client) toldOf(g *lockLoss) {
	c.state.mu.Lock()
	if l := c.state.locks[g.lockKey]; l != nil && l.told == g.told {
		l.told = nil
	}
	c.state.mu.Unlock()
	c.dropIdle(g.lockKey)
}

// awaitTold waits until the Watcher has been told of the losses of an owner that has a lock again: told
// later, it would take that one for lost.
func (c *Client) awaitTold(k lockKey) {
	c.state.mu.Lock()
	var told chan struct{}
	if l := c.state.locks[k]; l != nil {
		told = l.told
	}
	c.state.mu.Unlock()
	if told == nil {
		return
	}
	select {
	case <-told:
	case <-c.life.Done():
	}
}

// unlock gives up what the owner has in a range.
func (c *Client) unlock(ctx context.Context, cr nfsclient.Cred, k lockKey, first, last uint64) error {
	c.state.mu.Lock()
	_, any := c.state.locks[k]
	c.state.mu.Unlock()
	if !any {
		return nil
	}
	l, err := c.enter(ctx, k)
	if err != nil {
		return err
	}
	defer l.leave()
	return c.unlockTurn(ctx, cr, l, first, last)
}

// errNothing is returned by Prepare: there is no lock to give back any more.
var errNothing = errors.New("nothing is locked")

// unlockTurn is unlock for who has l's turn.
func (c *Client) unlockTurn(ctx context.Context, cr nfsclient.Cred, l *lockState, first, last uint64) error {
	t := &c.state
	for tries := 0; ; tries++ {
		op := &wire.LockU{Type: wire.ReadLock, Offset: first, Length: length(first, last)}
		q := &request{op: "LOCKU", at: 1}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: l.h}, op}, true
		q.Prepare = func() error {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !l.known || len(l.set) == 0 {
				return errNothing
			}
			op.Stateid = l.sid.Latest()
			return nil
		}
		err := c.giving(ctx, cr, q)
		if errors.Is(err, errNothing) {
			return nil
		}
		t.mu.Lock()
		if err == nil {
			l.set = l.set.Unlock(first, last)
			if l.sid.Other == op.ResStateid.Other {
				l.sid = op.ResStateid
			}
			t.mu.Unlock()
			return nil
		}
		if !isLost(err) {
			t.mu.Unlock()
			return err
		}
		if l.sid.Other != op.Stateid.Other && tries < maxRevive {
			t.mu.Unlock() // it was reclaimed meanwhile
			continue
		}
		// What is left of the owner's locks is gone too.
		var gone []lockLoss
		var dead []wire.Stateid
		if l.set = l.set.Unlock(first, last); l.known {
			gone, dead = l.lose(gone), []wire.Stateid{l.sid}
		}
		t.mu.Unlock()
		c.tellLost(gone)
		c.free(dead)
		return nil
	}
}

// unlockAll gives back what was locked through o, which is about to be closed.
func (c *Client) unlockAll(ctx context.Context, o *openState) {
	t := &c.state
	t.mu.Lock()
	var all []*lockState
	for _, l := range t.locks {
		if l.open == o && len(l.set) > 0 {
			all = append(all, l)
		}
	}
	t.mu.Unlock()
	for _, l := range all {
		if l.turn.take(ctx) != nil {
			return
		}
		if err := c.unlockTurn(ctx, o.cr, l, 0, ranges.End); err != nil {
			c.cf.Log.Info(fmt.Sprintf("%s: giving back locks: %v", c.cf.Host, settle(err)))
			t.mu.Lock()
			l.known, l.set = false, nil // they end with the opening
			t.mu.Unlock()
		}
		l.leave()
	}
}

// Delays between tries to get a lock that someone else has. With a back channel the server may tell when it is
// free, and need not (RFC 8881 section 9.6).
const (
	firstPoll = 50 * time.Millisecond
	lastPoll  = 2 * time.Second
)

// WaitLock implements nfsclient.Locker, by asking again and again, and when the server calls back.
func (c *Client) WaitLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	o, err := opening(st)
	if err != nil {
		return err
	}
	if l.First > l.Last {
		return &nfsclient.Error{Op: "LOCK", Status: nfsclient.ErrInval}
	}
	w := c.beginWait(&waiter{h: h, owner: owner})
	defer c.dropIdle(lockKey{h, owner})
	defer c.endWait(w)
	for delay := firstPoll; ; delay = min(2*delay, lastPoll) {
		err := c.setLock(ctx, cr, lockKey{h, owner}, o, l, c.delegated())
		if !errors.Is(err, nfsclient.ErrLocked) {
			return err
		}
		if err := w.pause(ctx, c, delay); err != nil {
			return err
		}
	}
}

// locker is the name of an owner of locks in a file, of one that has none if it has none there.
func (c *Client) locker(k lockKey) uint64 {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.locks[k]; l != nil {
		return l.name
	}
	return 0 // the first is 1
}

// TestLock implements nfsclient.Locker.
func (c *Client) TestLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) (*nfsclient.Lock, error) {
	if l.First > l.Last || l.Type == nfsclient.Unlocked {
		return nil, &nfsclient.Error{Op: "LOCKT", Status: nfsclient.ErrInval}
	}
	op := &wire.LockT{Type: lockType(l.Type == nfsclient.WriteLock), Offset: l.First, Length: length(l.First, l.Last)}
	q := &request{op: "LOCKT", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, op}
	q.Prepare = func() error {
		op.Owner = c.lockOwner(c.locker(lockKey{h, owner}))
		return nil
	}
	err := c.do(ctx, cr, q)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, nfsclient.ErrLocked) {
		return nil, settle(err)
	}
	d := &op.Denied
	found := &nfsclient.Lock{Type: nfsclient.ReadLock, First: d.Offset, Last: ranges.End}
	if d.Type == wire.WriteLock || d.Type == wire.WriteLockWait {
		found.Type = nfsclient.WriteLock
	}
	if d.Length != wire.ToEnd && d.Offset+(d.Length-1) < d.Offset && d.Length != 0 {
		return nil, broken("LOCKT", "a lock of %d bytes at %d", d.Length, d.Offset)
	}
	// 0 is not a length, but what nfs-ganesha says of a lock to the end.
	if d.Length != wire.ToEnd && d.Length != 0 {
		found.Last = d.Offset + (d.Length - 1)
	}
	return found, nil
}
