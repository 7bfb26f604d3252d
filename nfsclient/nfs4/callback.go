package nfs4

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// calledBack is a Client as its server calls it.
type calledBack struct{ c *Client }

var _ callback.Client = calledBack{}

// Recall implements callback.Client. The recall of a delegation whose OPEN is not answered yet is kept until it is.
func (b calledBack) Recall(h nfsclient.Handle, sid wire.Stateid, _ bool) wire.Status {
	c, t := b.c, &b.c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.delegs.files[h]
	switch {
	case f == nil:
		return wire.ErrBadStateid
	case f.held != nil && f.held.sid.Other == sid.Other:
		if d := f.held; !d.leaving && !t.closed {
			d.leaving = true
			c.returnSoon([]*delegation{d}, true)
		}
		return wire.OK
	case f.asking > 0 && len(f.early) < maxEarly:
		f.early = append(f.early, sid)
		return wire.OK
	}
	return wire.ErrBadStateid
}

// GetAttr implements callback.Client: there are no write delegations.
func (calledBack) GetAttr(nfsclient.Handle, wire.Bitmap) (wire.Attrs, wire.Status) {
	return wire.Attrs{}, nfsclient.ErrBadHandle
}

// RecallAny implements callback.Client.
func (b calledBack) RecallAny(keep uint32, types wire.Bitmap) wire.Status {
	if !types.Has(wire.RecallAnyReadDeleg) {
		return wire.OK
	}
	t := &b.c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		b.c.returnSoon(t.delegs.excess(int(min(keep, maxDelegations))), false)
	}
	return wire.OK
}

// RecallSlot implements callback.Client.
func (b calledBack) RecallSlot(target uint32) wire.Status {
	b.c.ses.LimitSlots(target)
	return wire.OK
}

// NotifyLock implements callback.Client.
func (b calledBack) NotifyLock(h nfsclient.Handle, _ wire.Owner) wire.Status {
	b.c.tellLocks(h)
	return wire.OK
}

// Offload implements callback.Client.
func (b calledBack) Offload(o *wire.CBOffload) wire.Status {
	if !b.c.tellCopy(o) {
		return wire.ErrBadStateid
	}
	return wire.OK
}

// runKilled tells the cache of a delegation that the server does not know any more, and has the server
// forget that it has revoked it.
func (c *Client) runKilled(d *delegation) {
	c.runRecalled(d)
	q := &request{op: "FREE_STATEID", at: 0}
	q.Ops, q.Cache = []wire.Operation{&wire.FreeStateID{Stateid: d.sid}}, true
	if err := c.giving(c.life, d.cr, q); err != nil && !isLost(err) {
		c.cf.Log.Info(fmt.Sprintf("%s: freeing a revoked delegation: %v", c.cf.Host, settle(err)))
	}
}

// runRecalled tells the cache that a file may have been changed.
func (c *Client) runRecalled(d *delegation) {
	ctx, cancel := context.WithTimeout(c.life, c.ses.Lease()/2)
	defer cancel()
	if err := c.watcher.recalled(ctx, d.h); err != nil {
		c.cf.Log.Info(fmt.Sprintf("%s: data of a file could not be written after its delegation was revoked: %v", c.cf.Host, err))
	}
}
