package nfs3

import (
	"context"
	"crypto/rand"
	"time"

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
	if exclusive && s.SetAtime == nfsclient.TimeKeep {
		if mark, ok := c.marks.Next(cr.UID); ok {
			return c.createMarked(ctx, cr, args, s, mark)
		}
	}
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

// createMarked makes the file with all its attributes, and a mark by which this client
// knows it again if the call had to be resent.
func (c *Client) createMarked(ctx context.Context, cr nfsclient.Cred, args wire.CreateArgs, s nfsclient.SetAttr, mark time.Time) (nfsclient.Made, error) {
	args.Attr.Atime = wire.SetTime{How: nfsclient.TimeClient, T: wire.TimeOf(mark)}
	var res wire.MadeRes
	q, sent := createRequest(&args, &res), time.Now()
	m, err := c.make(ctx, cr, q, &res, args.Where)
	if err == nil {
		c.readClock(q, sent, &res)
		if !m.Late && !q.call.Resent {
			c.marks.Tried(cr.UID, mark, m.Attr.Atime)
		}
		return m, nil
	}
	switch st, _ := nfsclient.StatusOf(err); st {
	case nfsclient.ErrExist:
		if q.call.Resent {
			return c.recognize(ctx, cr, args.Where, mark, m, err)
		}
	case nfsclient.ErrPerm, nfsclient.ErrInval, nfsclient.ErrNotSupp:
		// Of the time, perhaps, in a part of the export that is another file system. It
		// may have made the file before it refused: that one is then not ours to take.
		again, err := c.createExclusive(ctx, cr, args, s)
		if st, ok := nfsclient.StatusOf(err); st == nfsclient.OK && ok || st == nfsclient.ErrExist {
			c.marks.Refuse()
		}
		return again, err
	}
	return m, err
}

// recognize is the result of a CREATE that was sent more than once and found the name
// taken: by the file that it has itself made, if that has the mark.
func (c *Client) recognize(ctx context.Context, cr nfsclient.Cred, where wire.DirOp, mark time.Time, m nfsclient.Made, taken error) (nfsclient.Made, error) {
	f, err := c.Lookup(ctx, cr, where.Dir, where.Name)
	if err != nil {
		return m, taken
	}
	own, err := c.withAttr(ctx, cr, nfsclient.Made{Handle: f.Handle, Dir: m.Dir}, f.Attr)
	if err != nil || own.Attr.Type != nfsclient.Regular || !own.Attr.Atime.Equal(mark) {
		return m, taken
	}
	own.Late = true
	return own, nil
}

// createExclusive makes the file with a verifier, by which the server recognizes a
// resent call, and then sets its attributes. Servers keep the verifier in
// the file's times, which are therefore always set.
func (c *Client) createExclusive(ctx context.Context, cr nfsclient.Cred, args wire.CreateArgs, s nfsclient.SetAttr) (nfsclient.Made, error) {
	args.Mode = wire.Exclusive
	if _, err := rand.Read(args.Verifier[:]); err != nil {
		return nfsclient.Made{}, err
	}
	args.Attr = wire.SetAttr{}
	var res wire.MadeRes
	q, sent := createRequest(&args, &res), time.Now()
	err := c.do(ctx, cr, q)
	if err != nil {
		return c.madeOf(&res, err)
	}
	c.readClock(q, sent, &res)
	h, err := c.madeHandle(ctx, cr, "CREATE", &res, args.Where)
	if err != nil {
		return nfsclient.Made{}, err
	}
	if s.SetMtime == nfsclient.TimeKeep {
		s.SetMtime = nfsclient.TimeServer
	}
	m := nfsclient.Made{Handle: h, Dir: toWcc(&res.Dir), Late: true}
	var mark time.Time
	marked := false
	if s.SetAtime == nfsclient.TimeKeep {
		s.SetAtime = nfsclient.TimeServer
		if mark, marked = c.marks.Candidate(); marked {
			s.SetAtime, s.Atime = nfsclient.TimeClient, mark
		}
	}
	wcc, err := c.SetAttr(ctx, cr, h, nil, s)
	if marked {
		switch {
		case err == nil && wcc.After.Set:
			c.marks.Tried(cr.UID, mark, wcc.After.Attr.Atime)
		case err != nil && answered(err):
			c.marks.Refuse()
			s.SetAtime = nfsclient.TimeServer
			wcc, err = c.SetAttr(ctx, cr, h, nil, s)
		}
	}
	if err != nil {
		return m, err
	}
	if !wcc.After.Set {
		return c.withAttr(ctx, cr, m, nil)
	}
	return c.withAttr(ctx, cr, m, &wcc.After.Attr)
}

// readClock takes the server's time from the reply to q, which was sent at a time here and
// has made a file.
func (c *Client) readClock(q *request, sent time.Time, res *wire.MadeRes) {
	if res.Attr.Set && !q.call.Resent {
		c.marks.Made(sent, res.Attr.Attr.Ctime.Time())
	}
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
	buf, err := c.paths.Get(ctx)
	if err != nil {
		return nfsclient.Made{}, err
	}
	defer c.paths.Put(buf)
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
	return c.withAttr(ctx, cr, nfsclient.Made{Handle: h, Dir: toWcc(&res.Dir), Late: !res.Handle.Set}, toPost(&res.Attr))
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
	m.Late = true
	var err error
	m.Attr, err = c.GetAttr(ctx, cr, m.Handle)
	return m, err
}
