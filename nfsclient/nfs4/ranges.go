package nfs4

import (
	"context"
	"math"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// optional makes a call of an operation that a server may not have.
func (c *Client) optional(call func() error) error {
	if c.cf.Minor < 2 {
		return nfsclient.ErrNotSupported
	}
	err := call()
	if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrNotSupp {
		return nfsclient.ErrNotSupported // of this file system, perhaps
	}
	return settle(err)
}

// Seek implements nfsclient.Ranges.
func (c *Client) Seek(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, hole bool) (uint64, error) {
	o, err := opening(st)
	if err != nil {
		return 0, err
	}
	op := &wire.Seek{Offset: off, Hole: hole}
	err = c.optional(func() error {
		q := &request{op: "SEEK", at: 1}
		q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, op}
		return c.withState(ctx, cr, q, o, &op.Stateid)
	})
	switch {
	case err != nil:
		return 0, err
	case op.EOF && !hole:
		// RFC 7862 section 15.11.3: no data behind off.
		return 0, &nfsclient.Error{Op: "SEEK", Status: nfsclient.ErrNXIO}
	case op.At < off || op.At > math.MaxInt64:
		return 0, broken("SEEK", "offset %d, asked from %d", op.At, off)
	}
	return op.At, nil
}

// Allocate implements nfsclient.Ranges.
func (c *Client) Allocate(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off, n uint64) (nfsclient.Wcc, error) {
	op := &wire.Allocate{Offset: off, Length: n}
	return c.rangeCall(ctx, cr, h, st, op, &op.Stateid)
}

// Deallocate implements nfsclient.Ranges.
func (c *Client) Deallocate(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off, n uint64) (nfsclient.Wcc, error) {
	op := &wire.Deallocate{Offset: off, Length: n}
	return c.rangeCall(ctx, cr, h, st, op, &op.Stateid)
}

func (c *Client) rangeCall(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, op wire.Operation, into *wire.Stateid) (w nfsclient.Wcc, err error) {
	o, err := opening(st)
	if err != nil {
		return w, err
	}
	err = c.optional(func() error {
		q := &request{op: op.Op().String(), at: 1}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: h}, op, c.getattr()}, true
		err := c.withState(ctx, cr, q, o, into)
		w.After.Attr, w.After.Set = c.postOf(q, 2)
		return err
	})
	return w, err
}

// Copy implements nfsclient.Ranges. Servers copy less than asked for; a caller goes on where they
// have ended. Nothing is copied behind the end of the source, and asynchronous copies, whose end only a
// callback tells, are not asked for.
func (c *Client) Copy(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromState nfsclient.OpenState, fromOff uint64,
	to nfsclient.Handle, toState nfsclient.OpenState, toOff, n uint64) (r nfsclient.WriteResult, err error) {
	src, err := opening(fromState)
	if err != nil {
		return r, err
	}
	dst, err := opening(toState)
	if err != nil {
		return r, err
	}
	if n == 0 {
		return r, nil // of the protocol's it would mean to the end
	}
	op := &wire.Copy{FromOffset: fromOff, ToOffset: toOff, Count: n, Consecutive: true, Synchronous: true}
	err = c.optional(func() error {
		q := &request{op: "COPY", at: 3}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: from}, &wire.SaveFH{}, &wire.PutFH{Handle: to}, op, c.getattr()}, true
		err := c.carrying(ctx, cr, q, []carried{{src, &op.From}, {dst, &op.To}})
		w := &r.Wcc
		w.After.Attr, w.After.Set = c.postOf(q, 4)
		if q.Status == wire.ErrOffloadNoReqs {
			return nfsclient.ErrNotSupported
		}
		return err
	})
	switch {
	case err != nil:
		return r, err
	case op.HasCallback:
		return r, broken("COPY", "an asynchronous copy where a synchronous one was asked for")
	case op.Copied > n:
		return r, broken("COPY", "%d bytes copied of %d", op.Copied, n)
	}
	r.N, r.Committed, r.Verifier = int(op.Copied), op.Committed, op.Verifier
	return r, nil
}
