package nfs4

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/transport"
)

// recover is session.Config.Recover. It takes no turn: who has one may wait for it to end.
func (c *Client) recover(ctx context.Context, r *session.Recovery) error {
	if r.Loss == session.Revoked {
		return c.recoverRevoked(ctx, r)
	}
	t := &c.state
	t.mu.Lock()
	opens := make([]*openState, 0, len(t.opens))
	for o := range t.opens {
		opens = append(opens, o)
	}
	t.mu.Unlock()
	var files, lostFiles, lostLocks int
	for _, o := range opens {
		ok, err := c.reclaim(ctx, r, o)
		if err != nil {
			return err
		}
		files++
		if !ok {
			lostFiles++
		}
		n, err := c.reclaimLocks(ctx, r, o, ok)
		if err != nil {
			return err
		}
		lostLocks += n
	}
	c.notReclaimed(r.Epoch)
	c.cf.Log.Info(fmt.Sprintf("%s: server has lost its state: %d files reclaimed, %d to be opened anew, %d owners' locks lost",
		c.cf.Host, files-lostFiles, lostFiles, lostLocks))
	return nil
}

// call makes a call of the recovery, again while the server answers DELAY. All other calls wait meanwhile. Two leases
// are more than a grace period lasts: what was not granted by then is lost.
func (c *Client) call(ctx context.Context, r *session.Recovery, cr nfsclient.Cred, q *request) error {
	q.sys = c.cf.sys(cr)
	q.Cred = &q.sys
	left := 2 * c.ses.Lease()
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		if err := r.Do(ctx, &q.Call); err != nil {
			return err
		}
		if q.Status != wire.ErrDelay {
			return nil
		}
		if left -= delay; left < 0 {
			c.cf.Log.Warn(fmt.Sprintf("%s: %s of a file is given up in the recovery: server asks to try later for longer than its grace period", c.cf.Host, q.op))
			return nil
		}
		if err := c.sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// callFor is call for what a user has. Without a credential of his it is not made, and q has no operation that was
// carried out: others do not wait until he has one.
func (c *Client) callFor(ctx context.Context, r *session.Recovery, o *openState, q *request) error {
	if err := c.call(ctx, r, o.cr, q); !errors.Is(err, transport.ErrNoCredential) {
		return err
	}
	return nil
}

// reclaim reclaims an opening; ok is false if the server does not have it any more. It is then
// opened anew by who next uses it.
func (c *Client) reclaim(ctx context.Context, r *session.Recovery, o *openState) (ok bool, err error) {
	op := &wire.Open{Claim: wire.ClaimPrevious, Access: c.share(o)}
	if done := c.reclaimDelegation(o, op, r.Epoch); done {
		return true, nil
	}
	q := &request{op: "OPEN", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: o.h}, op}, true
	q.Prepare = func() error {
		op.Owner = c.openOwner(o)
		return nil
	}
	if err := c.callFor(ctx, r, o, q); err != nil {
		return false, err
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if ok = q.has(1); ok {
		o.sid, o.stale = op.Stateid, false
		c.delegationReclaimed(o, op, r.Epoch)
	} else {
		o.stale = true
	}
	o.detach()
	return ok, nil
}

// reclaimLocks reclaims what was locked through o, and returns how many owners have lost locks.
func (c *Client) reclaimLocks(ctx context.Context, r *session.Recovery, o *openState, reclaimed bool) (lost int, err error) {
	t := &c.state
	t.mu.Lock()
	var all []*lockState
	for _, l := range t.locks {
		if l.open != o {
			continue
		}
		l.losses++ // what is being taken must be taken again
		l.known = false
		all = append(all, l)
	}
	t.mu.Unlock()
	var gone []lockLoss
	for _, l := range all {
		t.mu.Lock()
		set, open := l.set, o.sid
		t.mu.Unlock()
		ok := reclaimed
		for _, held := range set {
			if !ok {
				break
			}
			if ok, err = c.reclaimLock(ctx, r, l, o, open, held); err != nil {
				return lost, err
			}
		}
		if !ok {
			if err := c.unlockReclaimed(ctx, r, l, o); err != nil {
				return lost, err
			}
			t.mu.Lock()
			gone = l.lose(gone)
			t.mu.Unlock()
		}
	}
	c.tellLost(gone)
	return len(gone), nil
}

// unlockReclaimed gives back what was reclaimed of an owner's locks, if anything, when not all were: he is told that they are lost, and
// what stays at the server would keep others out, and the file from being closed.
func (c *Client) unlockReclaimed(ctx context.Context, r *session.Recovery, l *lockState, o *openState) error {
	t := &c.state
	t.mu.Lock()
	sid, some := l.sid.Latest(), l.known
	t.mu.Unlock()
	if !some {
		return nil
	}
	q := &request{op: "LOCKU", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: l.h}, &wire.LockU{Type: wire.ReadLock, Stateid: sid, Length: wire.ToEnd}}, true
	return c.callFor(ctx, r, o, q)
}

func (c *Client) reclaimLock(ctx context.Context, r *session.Recovery, l *lockState, o *openState, open wire.Stateid, held ranges.Range) (ok bool, err error) {
	t := &c.state
	op := &wire.Lock{Type: lockType(held.Exclusive), Reclaim: true, Offset: held.First, Length: length(held.First, held.Last)}
	q := &request{op: "LOCK", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: l.h}, op}, true
	q.Prepare = func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if op.New = !l.known; op.New {
			op.OpenStateid, op.Owner = open, c.lockOwner(l.name)
		} else {
			op.LockStateid = l.sid.Latest()
		}
		return nil
	}
	if err := c.callFor(ctx, r, o, q); err != nil {
		return false, err
	}
	if !q.has(1) {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.sid, l.known = op.Stateid, true
	return true, nil
}

// recoverRevoked finds out what the server has revoked, and acknowledges it. Other calls go on.
func (c *Client) recoverRevoked(ctx context.Context, r *session.Recovery) error {
	t := &c.state
	t.mu.Lock()
	opens, locks := map[wire.Stateid]*openState{}, map[wire.Stateid]*lockState{}
	var all []wire.Stateid
	for o := range t.opens {
		if !o.stale && o.deleg == nil {
			opens[o.sid.Latest()] = o
			all = append(all, o.sid.Latest())
		}
	}
	for _, l := range t.locks {
		if l.known {
			locks[l.sid.Latest()] = l
			all = append(all, l.sid.Latest())
		}
	}
	delegs := t.delegs.bySid()
	for sid := range delegs {
		all = append(all, sid)
	}
	t.mu.Unlock()
	const most = 128 // stateids in one TEST_STATEID
	for len(all) > 0 {
		n := min(len(all), most)
		test := &wire.TestStateID{Stateids: all[:n]}
		q := &request{op: "TEST_STATEID", at: 0}
		q.Ops = []wire.Operation{test}
		if err := c.call(ctx, r, c.cf.Cred, q); err != nil {
			return err
		}
		if !q.has(0) {
			return settle(statusOf(q.op, q.Status))
		}
		for i, st := range test.Statuses {
			if !lostState(st) || st == wire.ErrOldStateid {
				continue
			}
			if err := c.revoked(ctx, r, all[i], opens[all[i]], locks[all[i]], delegs[all[i]]); err != nil {
				return err
			}
		}
		all = all[n:]
	}
	return nil
}

// revoked gives up a stateid that the server has revoked. A delegation goes first: once its stateid is freed the server says
// no more that it has revoked anything.
func (c *Client) revoked(ctx context.Context, r *session.Recovery, sid wire.Stateid, o *openState, l *lockState, d *delegation) error {
	if d != nil {
		c.revokedDelegation(sid, d)
	}
	q := &request{op: "FREE_STATEID", at: 0}
	q.Ops, q.Cache = []wire.Operation{&wire.FreeStateID{Stateid: sid}}, true
	if err := c.call(ctx, r, c.cf.Cred, q); err != nil {
		return err
	}
	if !q.has(0) && !lostState(q.Status) {
		c.cf.Log.Info(fmt.Sprintf("%s: freeing a revoked stateid: %s", c.cf.Host, wire.StatusName(q.Status)))
	}
	t := &c.state
	t.mu.Lock()
	var gone []lockLoss
	if o != nil && o.sid.Other == sid.Other {
		o.stale = true
		gone = t.loseLocks(o)
	}
	if l != nil && l.known && l.sid.Other == sid.Other {
		gone = l.lose(gone)
	}
	t.mu.Unlock()
	c.tellLost(gone)
	return nil
}

// revokedDelegation gives up a delegation that the server has revoked under this stateid.
func (c *Client) revokedDelegation(sid wire.Stateid, d *delegation) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.dead || d.sid.Other != sid.Other {
		return
	}
	t.kill(d)
	c.cf.Log.Warn(fmt.Sprintf("%s: the server has revoked a delegation", c.cf.Host))
	if !t.closed {
		c.running.Go(func() { c.runRecalled(d) })
	}
}
