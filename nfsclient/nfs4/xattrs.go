package nfs4

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// listXattrsSize is how many bytes of names are asked for at once.
const listXattrsSize = 8 << 10

// maxXattrNames bounds the names of one file's attributes, in bytes (XATTR_LIST_MAX).
const maxXattrNames = 64 << 10

// GetXattr implements nfsclient.Xattrs.
func (c *Client) GetXattr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, name string, limit int) ([]byte, error) {
	op := &wire.GetXattr{Name: name, Limit: limit}
	err := c.optional(func() error {
		q := &request{op: "GETXATTR", at: 1}
		q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, op}
		return c.do(ctx, cr, q)
	})
	if err != nil {
		return nil, err
	}
	return op.Value, nil
}

// SetXattr implements nfsclient.Xattrs.
func (c *Client) SetXattr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, name string, value []byte, how nfsclient.SetXattr) (nfsclient.Wcc, error) {
	op := &wire.SetXattr{Name: name, Value: value, How: how}
	return c.xattrCall(ctx, cr, h, op, &op.Change)
}

// RemoveXattr implements nfsclient.Xattrs.
func (c *Client) RemoveXattr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	op := &wire.RemoveXattr{Name: name}
	return c.xattrCall(ctx, cr, h, op, &op.Change)
}

func (c *Client) xattrCall(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, op wire.Operation, info *wire.ChangeInfo) (w nfsclient.Wcc, err error) {
	done, err := c.alter(ctx, h)
	if err != nil {
		return w, err
	}
	defer done()
	err = c.optional(func() error {
		q := &request{op: op.Op().String(), at: 1}
		q.Ops, q.Cache = c.last([]wire.Operation{&wire.PutFH{Handle: h}, op, c.getattr()}, 1), true
		if err := c.do(ctx, cr, q); err != nil {
			return err
		}
		w = c.dirWcc(q, *info, 2)
		return nil
	})
	return w, err
}

// ListXattrs implements nfsclient.Xattrs.
func (c *Client) ListXattrs(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) ([]string, error) {
	var names []string
	size, cookie := 0, uint64(0)
	for {
		op := &wire.ListXattrs{Cookie: cookie, MaxCount: listXattrsSize}
		err := c.optional(func() error {
			q := &request{op: "LISTXATTRS", at: 1}
			q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, op}
			return c.do(ctx, cr, q)
		})
		if err != nil {
			return nil, err
		}
		for _, n := range op.Names {
			size += len(n) + 1
		}
		names = append(names, op.Names...)
		switch {
		case op.EOF:
			return names, nil
		case len(op.Names) == 0 || op.ResCookie == cookie:
			return nil, broken("LISTXATTRS", "neither names nor the end")
		case size > maxXattrNames:
			return nil, broken("LISTXATTRS", "more than %d bytes of names", maxXattrNames)
		}
		cookie = op.ResCookie
	}
}
