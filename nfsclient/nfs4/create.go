package nfs4

import (
	"context"
	"crypto/rand"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/pathbuf"
	"github.com/rdmafs/rdmafs/transport"
)

// creation is a CREATE of the Client: what it asks and what came of it.
type creation struct {
	q     request
	open  *wire.Open
	fh    *wire.GetFH
	close *wire.Close // with mode 0
	state *openState
	// The operations' indices; 0 where there is none.
	getFH, setAttr, attr, closes, dirAttr int
}

// Create implements nfsclient.Client, in one compound. Never UNCHECKED: its answer does not say
// whether the file is new or another client's. With exclusive the server knows the file again by a
// verifier should it have lost its session in between; it may keep that in the file's times, which
// are therefore always set.
func (c *Client) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, mode nfsclient.OpenMode) (nfsclient.Made, error) {
	if err := c.checkName("CREATE", name); err != nil {
		return nfsclient.Made{}, err
	}
	// refused: the server has made nothing. Whoever makes the call may still be at it after its caller has given up.
	var refused atomic.Bool
	try := func(exclusiveAttrs wire.Bitmap, names bool) (m nfsclient.Made, err error) {
		x, err := c.creation(cr, dir, name, s, exclusive, exclusiveAttrs, names, mode)
		if err != nil {
			return m, err
		}
		var made nfsclient.Made
		err = c.finish(ctx, func(ctx context.Context) (err error) {
			made, err = c.create(ctx, cr, dir, name, x, mode)
			refused.Store(!x.q.has(x.q.at))
			return err
		}, func(ctx context.Context) {
			if mode != 0 {
				c.closeLogged(ctx, x.state)
			}
		})
		if err != nil {
			return m, err
		}
		return made, nil
	}
	var m nfsclient.Made
	err := c.withOwners(func(names bool) (err error) {
		m, err = try(c.fs.exclusive, names)
		if st, _ := nfsclient.StatusOf(err); exclusive && (st == nfsclient.ErrInval || st == nfsclient.ErrNotSupp) && refused.Load() && !c.fs.exclusive.Empty() {
			// Another file system below the root may take other attributes.
			m, err = try(wire.Bitmap{}, names)
		}
		if !refused.Load() {
			err = settle(err) // not to be tried again
		}
		return err
	})
	return m, settle(err)
}

// creation makes the compound.
func (c *Client) creation(cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, may wire.Bitmap, names bool, mode nfsclient.OpenMode) (*creation, error) {
	x := &creation{open: &wire.Open{Claim: wire.ClaimNull, Name: name, Create: true, Mode: wire.Guarded}, fh: &wire.GetFH{}}
	x.state = c.newOpen(cr, "", mode)
	x.open.Access = shareAccess(mode)
	x.open.Attrs = c.toMake(&s, c.fs.make, names)
	ops := []wire.Operation{&wire.PutFH{Handle: dir}, x.open, x.fh}
	x.getFH = 2
	if exclusive {
		x.open.Mode = wire.Exclusive1
		if _, err := rand.Read(x.open.Verifier[:]); err != nil {
			return nil, err
		}
		rest := &wire.SetAttr{Stateid: wire.AnonymousStateid}
		if s.SetAtime == nfsclient.TimeKeep {
			s.SetAtime = nfsclient.TimeServer
		}
		if s.SetMtime == nfsclient.TimeKeep {
			s.SetMtime = nfsclient.TimeServer
		}
		rest.Attrs = c.toMake(&s, wire.Bitmap{}, names)
		x.open.Attrs = c.toMake(&s, c.fs.make.And(may), names)
		if x.open.Attrs.Has(wire.AttrModeUmask) {
			rest.Attrs.Mask.Remove(wire.AttrMode)
		}
		x.open.Attrs.Mask = x.open.Attrs.Mask.And(may).Without(wire.BitmapOf(wire.AttrTimeAccessSet, wire.AttrTimeModifySet))
		rest.Attrs.Mask = rest.Attrs.Mask.Without(x.open.Attrs.Mask)
		x.setAttr, ops = len(ops), append(ops, rest)
	}
	x.attr, ops = len(ops), append(ops, c.getattr())
	if mode == 0 {
		x.close = &wire.Close{Stateid: wire.CurrentStateid}
		x.closes, ops = len(ops), append(ops, x.close)
	}
	x.dirAttr = len(ops) + 1
	ops = append(ops, &wire.PutFH{Handle: dir}, c.getattr())
	x.q = request{op: "CREATE", at: 1}
	x.q.Ops, x.q.Cache = ops, true
	x.q.Prepare = func() error {
		x.open.Owner = c.openOwner(x.state)
		return nil
	}
	return x, nil
}

// create makes the call, and completes what it left undone.
func (c *Client) create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, x *creation, mode nfsclient.OpenMode) (m nfsclient.Made, err error) {
	q := &x.q
	if err := c.do(ctx, cr, q); err != nil {
		return m, err
	}
	m.Handle = x.fh.Handle
	if !q.has(x.getFH) || m.Handle == "" {
		f, err := c.Lookup(ctx, cr, dir, name)
		if err != nil {
			return m, err
		}
		m.Handle, m.Late = f.Handle, true
	}
	x.state.h = m.Handle
	if mode&nfsclient.OpenWrite != 0 && c.delegated() {
		x.state.altered, _ = c.altering(m.Handle) // a new file has no delegation that would have to be returned
	}
	c.took(ctx, x.state, x.open, nil)
	if !c.keep(x.state) {
		return m, transport.ErrClosed
	}
	if mode != 0 {
		m.State = x.state
	}
	defer func() {
		switch {
		case err == nil && mode != 0:
		case mode == 0 && q.has(x.closes):
			c.forget(x.state)
		default:
			c.closeLogged(ctx, x.state)
			m.State = nil
		}
	}()
	if x.setAttr > 0 && !q.has(x.setAttr) {
		set, _ := q.Ops[x.setAttr].(*wire.SetAttr)
		again := &request{op: "SETATTR", at: 1}
		again.Ops, again.Cache = []wire.Operation{&wire.PutFH{Handle: m.Handle}, set}, true
		if err := c.do(ctx, cr, again); err != nil {
			return m, err
		}
	}
	a, ok := c.postOf(q, x.attr)
	if !ok {
		m.Late = true
		if a, err = c.GetAttr(ctx, cr, m.Handle); err != nil {
			return m, err
		}
	}
	m.Attr = a
	m.Dir = c.dirWcc(q, x.open.Change, x.dirAttr)
	return m, nil
}

// forget drops an opening that the server has closed.
func (c *Client) forget(o *openState) {
	c.state.mu.Lock()
	delete(c.state.opens, o)
	c.state.mu.Unlock()
	o.end()
}

// Mkdir implements nfsclient.Client.
func (c *Client) Mkdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return c.make(ctx, cr, "MKDIR", dir, &wire.Create{Type: nfsclient.Directory, Name: name}, s, nil)
}

// Symlink implements nfsclient.Client.
func (c *Client) Symlink(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name, target string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	if len(target) > pathbuf.Size {
		return nfsclient.Made{}, &nfsclient.Error{Op: "SYMLINK", Status: nfsclient.ErrNameTooLong}
	}
	buf, err := c.paths.Get(ctx)
	if err != nil {
		return nfsclient.Made{}, err
	}
	defer c.paths.Put(buf)
	n := copy(buf.Bytes(), target)
	return c.make(ctx, cr, "SYMLINK", dir, &wire.Create{Type: nfsclient.SymbolicLink, Name: name, Target: wire.Marked(0)}, s,
		[]transport.Payload{{buf.Slice(0, n)}})
}

// Mknod implements nfsclient.Client.
func (c *Client) Mknod(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, kind nfsclient.FileType, dev nfsclient.Device, s nfsclient.SetAttr) (nfsclient.Made, error) {
	switch kind {
	case nfsclient.BlockDevice, nfsclient.CharDevice, nfsclient.Socket, nfsclient.FIFO:
	default:
		return nfsclient.Made{}, &nfsclient.Error{Op: "MKNOD", Status: nfsclient.ErrBadType}
	}
	return c.make(ctx, cr, "MKNOD", dir, &wire.Create{Type: kind, Name: name, Dev: dev}, s, nil)
}

// make makes what is no regular file, and completes its result.
func (c *Client) make(ctx context.Context, cr nfsclient.Cred, op string, dir nfsclient.Handle, mk *wire.Create, s nfsclient.SetAttr, send []transport.Payload) (nfsclient.Made, error) {
	if err := c.checkName(op, mk.Name); err != nil {
		return nfsclient.Made{}, err
	}
	try := func(names bool) (m nfsclient.Made, err error) {
		mk.Attrs = c.toMake(&s, c.fs.make, names)
		fh := &wire.GetFH{}
		q := &request{op: op, at: 1}
		q.Ops = []wire.Operation{&wire.PutFH{Handle: dir}, mk, fh, c.getattr(), &wire.PutFH{Handle: dir}, c.getattr()}
		q.Cache, q.Send = true, send
		if err := c.do(ctx, cr, q); err != nil {
			return m, err
		}
		m.Handle = fh.Handle
		if !q.has(2) || fh.Handle == "" {
			f, err := c.Lookup(ctx, cr, dir, mk.Name)
			if err != nil {
				return m, err
			}
			m.Handle, m.Late = f.Handle, true
		}
		m.Dir = c.dirWcc(q, mk.Change, 5)
		var ok bool
		if m.Attr, ok = c.postOf(q, 3); !ok {
			m.Late = true
			m.Attr, err = c.GetAttr(ctx, cr, m.Handle)
		}
		return m, err
	}
	var m nfsclient.Made
	err := c.withOwners(func(names bool) (err error) {
		m, err = try(names)
		return err
	})
	return m, settle(err)
}
