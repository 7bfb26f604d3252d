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
	done, err := c.alter(ctx, h)
	if err != nil {
		return w, err
	}
	defer done()
	err = c.optional(func() error {
		q := &request{op: op.Op().String(), at: 1}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: h}, op, c.getattr()}, true
		err := c.withState(ctx, cr, q, o, into)
		w.After.Attr, w.After.Set = c.postOf(q, 2)
		return err
	})
	return w, err
}
