package nfs4

import "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"

// What becomes of delegations when the server has lost all state. One whose file is open is reclaimed with that
// opening (RFC 8881 section 10.2.1); the others are given up without a call, as the server knows nothing of them.

// reclaimDelegation has op, by which o is about to be reclaimed, reclaim the delegation of the file too. done: o was
// open by the delegation alone, which is reclaimed already.
func (c *Client) reclaimDelegation(o *openState, op *wire.Open, epoch uint64) (done bool) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.delegs.files[o.h]
	if f == nil || f.held == nil {
		return false
	}
	d := f.held
	switch {
	case d.epoch == epoch && o.deleg == d:
		o.sid, o.stale = d.sid, false
		return true
	case d.epoch != epoch && !d.leaving && sameCred(d.cr, o.cr) && op.Access&wire.ShareWrite == 0:
		op.DelegType = wire.DelegRead
		op.Access &^= wire.WantNoDeleg
	}
	return false
}

// delegationReclaimed takes over what the server has answered to that. What it gave otherwise goes back. stateTable.mu is
// held.
func (c *Client) delegationReclaimed(o *openState, op *wire.Open, epoch uint64) {
	g := &op.Delegation
	if g.Type != wire.DelegRead && g.Type != wire.DelegWrite {
		return
	}
	t := &c.state
	if f := t.delegs.files[o.h]; f != nil && f.held != nil && g.Type == wire.DelegRead && op.DelegType == wire.DelegRead {
		d := f.held
		// Attributes may have changed while nobody watched.
		d.sid, d.epoch, d.names = g.Stateid, epoch, t.delegs.names-1
		if g.Recall && !t.closed && !d.leaving {
			d.leaving = true
			c.returnSoon([]*delegation{d}, true)
		}
		return
	}
	if !t.closed {
		c.running.Go(func() { c.giveBack(c.life, o, g.Stateid) })
	}
}

// notReclaimed gives up the delegations that the server has not.
func (c *Client) notReclaimed(epoch uint64) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.delegs.used.Front(); e != nil; {
		d, _ := e.Value.(*delegation)
		e = e.Next()
		if d.epoch != epoch {
			t.kill(d)
		}
	}
}

// bySid are the delegations by stateid; stateTable.mu is held.
func (t *delegTable) bySid() map[wire.Stateid]*delegation {
	all := make(map[wire.Stateid]*delegation, t.used.Len())
	for e := t.used.Front(); e != nil; e = e.Next() {
		d, _ := e.Value.(*delegation)
		all[d.sid.Latest()] = d
	}
	return all
}
