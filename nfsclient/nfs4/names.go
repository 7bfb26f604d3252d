package nfs4

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Lookup implements nfsclient.Client. The protocol has no "." and "..": the one is the directory
// itself, the other an operation.
func (c *Client) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error) {
	if err := c.checkName("LOOKUP", name); err != nil {
		return nfsclient.Found{}, err
	}
	fh := &wire.GetFH{}
	q := &request{op: "LOOKUP", at: 3}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: dir}, c.getattr(), &wire.Lookup{Name: name}, fh, c.getattr()}
	switch name {
	case ".":
		q.Ops[2] = &wire.PutFH{Handle: dir}
	case "..":
		q.Ops[2] = &wire.LookupP{}
	}
	err := c.do(ctx, cr, q)
	if q.Status == wire.ErrMoved || q.Status == wire.ErrWrongSec {
		c.tell(ctx, cr, dir, name, q.Status)
	}
	f := nfsclient.Found{Dir: c.attrOf(q, 1)}
	if err != nil {
		if q.Status == wire.ErrSymlink || q.Status == wire.ErrWrongType {
			err = &nfsclient.Error{Op: q.op, Status: nfsclient.ErrNotDir}
		}
		return f, settle(err)
	}
	if fh.Handle == "" {
		return f, broken(q.op, "an empty file handle")
	}
	f.Handle, f.Attr = fh.Handle, c.attrOf(q, 4)
	return f, nil
}

// Remove implements nfsclient.Client.
func (c *Client) Remove(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	return c.removeName(ctx, cr, "REMOVE", dir, name, &verifyType{not: true, typ: nfsclient.Directory}, nfsclient.ErrIsDir)
}

// Rmdir implements nfsclient.Client.
func (c *Client) Rmdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	return c.removeName(ctx, cr, "RMDIR", dir, name, &verifyType{typ: nfsclient.Directory}, nfsclient.ErrNotDir)
}

// removeName removes a name if its type is right. REMOVE takes directories and files alike; the compound
// ends before it if the type is not the one that the caller means.
func (c *Client) removeName(ctx context.Context, cr nfsclient.Cred, op string, dir nfsclient.Handle, name string, is *verifyType, otherwise nfsclient.Status) (nfsclient.Wcc, error) {
	if err := c.checkName(op, name); err != nil {
		return nfsclient.Wcc{}, err
	}
	c.renames()
	defer c.renames()
	rm := &wire.Remove{Name: name}
	q := &request{op: op, at: 4}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: dir}, &wire.Lookup{Name: name}, is, &wire.PutFH{Handle: dir}, rm, c.getattr()}
	q.Cache = true
	if err := c.do(ctx, cr, q); err != nil {
		switch q.Status {
		case wire.ErrSame, wire.ErrNotSame:
			err = &nfsclient.Error{Op: op, Status: otherwise}
		case wire.ErrSymlink, wire.ErrWrongType:
			err = &nfsclient.Error{Op: op, Status: nfsclient.ErrNotDir}
		}
		return nfsclient.Wcc{}, settle(err)
	}
	return c.dirWcc(q, rm.Change, 5), nil
}

// Rename implements nfsclient.Client.
func (c *Client) Rename(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromName string, to nfsclient.Handle, toName string) (fromDir, toDir nfsclient.Wcc, err error) {
	for _, name := range []string{fromName, toName} {
		if err := c.checkName("RENAME", name); err != nil {
			return fromDir, toDir, err
		}
	}
	c.renames()
	defer c.renames()
	mv := &wire.Rename{From: fromName, To: toName}
	q := &request{op: "RENAME", at: 3}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: from}, &wire.SaveFH{}, &wire.PutFH{Handle: to}, mv, c.getattr(), &wire.RestoreFH{}, c.getattr()}
	q.Cache = true
	if err := c.do(ctx, cr, q); err != nil {
		return fromDir, toDir, settle(err)
	}
	return c.dirWcc(q, mv.FromDir, 6), c.dirWcc(q, mv.ToDir, 4), nil
}

// Link implements nfsclient.Client.
func (c *Client) Link(ctx context.Context, cr nfsclient.Cred, h, dir nfsclient.Handle, name string) (*nfsclient.Attr, nfsclient.Wcc, error) {
	if err := c.checkName("LINK", name); err != nil {
		return nil, nfsclient.Wcc{}, err
	}
	done, err := c.alter(ctx, h)
	if err != nil {
		return nil, nfsclient.Wcc{}, err
	}
	defer done()
	ln := &wire.Link{Name: name}
	q := &request{op: "LINK", at: 3}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, &wire.SaveFH{}, &wire.PutFH{Handle: dir}, ln, c.getattr(), &wire.RestoreFH{}, c.getattr()}
	q.Cache = true
	if err := c.do(ctx, cr, q); err != nil {
		return nil, nfsclient.Wcc{}, settle(err)
	}
	return c.attrOf(q, 6), c.dirWcc(q, ln.Change, 4), nil
}
