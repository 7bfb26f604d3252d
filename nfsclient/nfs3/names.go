package nfs3

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// Lookup implements nfsclient.Client.
func (c *Client) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error) {
	if err := c.checkName("LOOKUP", name); err != nil {
		return nfsclient.Found{}, err
	}
	var res wire.LookupRes
	err := c.do(ctx, cr, &request{op: "LOOKUP", proc: wire.ProcLookup, args: &wire.DirOp{Dir: dir, Name: name},
		res: &res, status: &res.Status, replyMax: wire.LookupReplyMax})
	if !answered(err) {
		return nfsclient.Found{}, err
	}
	f := nfsclient.Found{Dir: toPost(&res.Dir)}
	if err != nil {
		return f, err
	}
	if res.Handle == "" {
		return f, broken("LOOKUP", "an empty file handle")
	}
	f.Handle, f.Attr = res.Handle, toPost(&res.Attr)
	return f, nil
}

// Remove implements nfsclient.Client.
func (c *Client) Remove(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	return c.removeName(ctx, cr, "REMOVE", wire.ProcRemove, dir, name)
}

// Rmdir implements nfsclient.Client.
func (c *Client) Rmdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	return c.removeName(ctx, cr, "RMDIR", wire.ProcRmdir, dir, name)
}

func (c *Client) removeName(ctx context.Context, cr nfsclient.Cred, op string, proc uint32, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	if err := c.checkName(op, name); err != nil {
		return nfsclient.Wcc{}, err
	}
	var res wire.WccRes
	err := c.do(ctx, cr, &request{op: op, proc: proc, args: &wire.DirOp{Dir: dir, Name: name},
		res: &res, status: &res.Status, replyMax: wire.RemoveReplyMax})
	return wccOf(&res.Wcc, err)
}

// Rename implements nfsclient.Client.
func (c *Client) Rename(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromName string, to nfsclient.Handle, toName string) (fromDir, toDir nfsclient.Wcc, err error) {
	for _, name := range []string{fromName, toName} {
		if err := c.checkName("RENAME", name); err != nil {
			return fromDir, toDir, err
		}
	}
	var res wire.RenameRes
	err = c.do(ctx, cr, &request{op: "RENAME", proc: wire.ProcRename,
		args: &wire.RenameArgs{From: wire.DirOp{Dir: from, Name: fromName}, To: wire.DirOp{Dir: to, Name: toName}},
		res:  &res, status: &res.Status, replyMax: wire.RenameReplyMax})
	if answered(err) {
		fromDir, toDir = toWcc(&res.FromDir), toWcc(&res.ToDir)
	}
	return fromDir, toDir, err
}

// Link implements nfsclient.Client.
func (c *Client) Link(ctx context.Context, cr nfsclient.Cred, h, dir nfsclient.Handle, name string) (*nfsclient.Attr, nfsclient.Wcc, error) {
	if err := c.checkName("LINK", name); err != nil {
		return nil, nfsclient.Wcc{}, err
	}
	var res wire.LinkRes
	err := c.do(ctx, cr, &request{op: "LINK", proc: wire.ProcLink,
		args: &wire.LinkArgs{Handle: h, Where: wire.DirOp{Dir: dir, Name: name}}, res: &res, status: &res.Status,
		replyMax: wire.LinkReplyMax})
	if !answered(err) {
		return nil, nfsclient.Wcc{}, err
	}
	return toPost(&res.Attr), toWcc(&res.Dir), err
}
