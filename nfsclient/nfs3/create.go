package nfs3

import (
	"context"
	"crypto/rand"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// Create implements nfsclient.Client (RFC 1813 section 3.3.8).
func (c *Client) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, _ nfsclient.OpenMode) (nfsclient.Made, error) {
	if err := c.checkName("CREATE", name); err != nil {
		return nfsclient.Made{}, err
	}
	// Never UNCHECKED: its reply does not say whether the file is new or another
	// client's.
	args := wire.CreateArgs{Where: wire.DirOp{Dir: dir, Name: name}, Attr: fromSetAttr(&s), Mode: wire.Guarded}
	if exclusive && !c.noExclusive.Load() {
		m, err := c.createExclusive(ctx, cr, args, s)
		if st, _ := nfsclient.StatusOf(err); st != nfsclient.ErrNotSupp {
			return m, err
		}
		c.noExclusive.Store(true)
	}
	// A server whose duplicate request cache has lost the entry answers a resent
	// call with EXIST.
	var res wire.MadeRes
	return c.make(ctx, cr, createRequest(&args, &res), &res, args.Where)
}

// createExclusive makes the file with a verifier, by which the server recognizes a
// resent call, and then sets its attributes. Servers keep the verifier in
// the file's times, which are therefore always set.
func (c *Client) createExclusive(ctx context.Context, cr nfsclient.Cred, args wire.CreateArgs, s nfsclient.SetAttr) (nfsclient.Made, error) {
	args.Mode = wire.Exclusive
	if _, err := rand.Read(args.Verifier[:]); err != nil {
		return nfsclient.Made{}, err
	}
	var res wire.MadeRes
	err := c.do(ctx, cr, createRequest(&args, &res))
	if err != nil {
		return c.madeOf(&res, err)
	}
	h, err := c.madeHandle(ctx, cr, "CREATE", &res, args.Where)
	if err != nil {
		return nfsclient.Made{}, err
	}
	if s.SetAtime == nfsclient.TimeKeep {
		s.SetAtime = nfsclient.TimeServer
	}
	if s.SetMtime == nfsclient.TimeKeep {
		s.SetMtime = nfsclient.TimeServer
	}
	m := nfsclient.Made{Handle: h, Dir: toWcc(&res.Dir)}
	wcc, err := c.SetAttr(ctx, cr, h, nil, s)
	if err != nil {
		return m, err
	}
	if !wcc.After.Set {
		return c.withAttr(ctx, cr, m, nil)
	}
	return c.withAttr(ctx, cr, m, &wcc.After.Attr)
}

func createRequest(args *wire.CreateArgs, res *wire.MadeRes) *request {
	return &request{op: "CREATE", proc: wire.ProcCreate, args: args, res: res, status: &res.Status, replyMax: wire.CreateReplyMax}
}

// Mkdir implements nfsclient.Client.
func (c *Client) Mkdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	if err := c.checkName("MKDIR", name); err != nil {
		return nfsclient.Made{}, err
	}
	var res wire.MadeRes
	where := wire.DirOp{Dir: dir, Name: name}
	return c.make(ctx, cr, &request{op: "MKDIR", proc: wire.ProcMkdir, args: &wire.MkdirArgs{Where: where, Attr: fromSetAttr(&s)},
		res: &res, status: &res.Status, replyMax: wire.MkdirReplyMax}, &res, where)
}

// Symlink implements nfsclient.Client.
func (c *Client) Symlink(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name, target string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	if err := c.checkName("SYMLINK", name); err != nil {
		return nfsclient.Made{}, err
	}
	if len(target) > wire.MaxPath {
		return nfsclient.Made{}, &nfsclient.Error{Op: "SYMLINK", Status: nfsclient.ErrNameTooLong}
	}
	buf, err := c.paths.get(ctx)
	if err != nil {
		return nfsclient.Made{}, err
	}
	defer c.paths.put(buf)
	n := copy(buf.Bytes(), target)
	var res wire.MadeRes
	where := wire.DirOp{Dir: dir, Name: name}
	return c.make(ctx, cr, &request{op: "SYMLINK", proc: wire.ProcSymlink,
		args: &wire.SymlinkArgs{Where: where, Attr: fromSetAttr(&s), Target: wire.Marked(0)}, res: &res, status: &res.Status,
		replyMax: wire.SymlinkReplyMax, send: []transport.Payload{{buf.Slice(0, n)}}}, &res, where)
}

// Mknod implements nfsclient.Client.
func (c *Client) Mknod(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, kind nfsclient.FileType, dev nfsclient.Device, s nfsclient.SetAttr) (nfsclient.Made, error) {
	switch kind {
	case nfsclient.BlockDevice, nfsclient.CharDevice, nfsclient.Socket, nfsclient.FIFO:
	default:
		return nfsclient.Made{}, &nfsclient.Error{Op: "MKNOD", Status: nfsclient.ErrBadType}
	}
	if err := c.checkName("MKNOD", name); err != nil {
		return nfsclient.Made{}, err
	}
	var res wire.MadeRes
	where := wire.DirOp{Dir: dir, Name: name}
	return c.make(ctx, cr, &request{op: "MKNOD", proc: wire.ProcMknod,
		args: &wire.MknodArgs{Where: where, Type: kind, Dev: dev, Attr: fromSetAttr(&s)}, res: &res, status: &res.Status,
		replyMax: wire.MknodReplyMax}, &res, where)
}

// make carries out a request that makes a file, and completes its result.
func (c *Client) make(ctx context.Context, cr nfsclient.Cred, q *request, res *wire.MadeRes, where wire.DirOp) (nfsclient.Made, error) {
	if err := c.do(ctx, cr, q); err != nil {
		return c.madeOf(res, err)
	}
	h, err := c.madeHandle(ctx, cr, q.op, res, where)
	if err != nil {
		return nfsclient.Made{}, err
	}
	return c.withAttr(ctx, cr, nfsclient.Made{Handle: h, Dir: toWcc(&res.Dir)}, toPost(&res.Attr))
}

// madeOf is what came with a failure: the directory's attributes.
func (c *Client) madeOf(res *wire.MadeRes, err error) (nfsclient.Made, error) {
	wcc, err := wccOf(&res.Dir, err)
	return nfsclient.Made{Dir: wcc}, err
}

// madeHandle is the new file's handle, looked up where the server left it out.
func (c *Client) madeHandle(ctx context.Context, cr nfsclient.Cred, op string, res *wire.MadeRes, where wire.DirOp) (nfsclient.Handle, error) {
	if !res.Handle.Set {
		f, err := c.Lookup(ctx, cr, where.Dir, where.Name)
		return f.Handle, err
	}
	if res.Handle.Handle == "" {
		return "", broken(op, "an empty file handle")
	}
	return res.Handle.Handle, nil
}

// withAttr completes m with attributes, which are asked for where the server
// left them out.
func (c *Client) withAttr(ctx context.Context, cr nfsclient.Cred, m nfsclient.Made, a *nfsclient.Attr) (nfsclient.Made, error) {
	if a != nil {
		m.Attr = *a
		return m, nil
	}
	var err error
	m.Attr, err = c.GetAttr(ctx, cr, m.Handle)
	return m, err
}
