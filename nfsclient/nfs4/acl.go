package nfs4

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// GetNFS4ACL implements nfsclient.NFS4ACLs. The list stands alone in its compound, as it has no narrow bound.
func (c *Client) GetNFS4ACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) ([]byte, error) {
	g := &wire.GetAttr{Want: wire.BitmapOf(wire.AttrACL)}
	q := &request{op: "GETATTR", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, g}
	if err := c.do(ctx, cr, q); err != nil {
		return nil, aclError(err)
	}
	if !g.Attrs.Has(wire.AttrACL) {
		return nil, nfsclient.ErrNotSupported // of this file system
	}
	var w xdr.Writer
	wire.AppendACL(&w, g.Attrs.ACL)
	return w.Bytes(), nil
}

// SetNFS4ACL implements nfsclient.NFS4ACLs.
func (c *Client) SetNFS4ACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, acl []byte) (w nfsclient.Wcc, err error) {
	var r xdr.Reader
	r.Reset(acl, nil)
	set := &wire.SetAttr{Stateid: wire.AnonymousStateid}
	set.Attrs.Mask.Add(wire.AttrACL)
	set.Attrs.ACL = wire.ParseACL(&r)
	if r.End() != nil {
		return w, &nfsclient.Error{Op: "SETATTR", Status: nfsclient.ErrInval}
	}
	done, err := c.alter(ctx, h)
	if err != nil {
		return w, err
	}
	defer done()
	q := &request{op: "SETATTR", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: h}, set, c.getattr()}, true
	if err := c.do(ctx, cr, q); err != nil {
		return w, aclError(err)
	}
	w.After.Attr, w.After.Set = c.postOf(q, 2)
	return w, nil
}

// aclError is the error for a call about a list: a file system of the server's may have none.
func aclError(err error) error {
	if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrNotSupp {
		return nfsclient.ErrNotSupported
	}
	return settle(err)
}
