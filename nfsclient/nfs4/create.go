package nfs4

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

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
	// rest is what a file that was made exclusively does not have yet, or nil.
	rest *wire.SetAttr
	// mark is the file's, or zero. mayMark: rest may bring one.
	mark    time.Time
	mayMark bool
	// The operations' indices; 0 where there is none.
	getFH, attr, closes, dirAttr int
}

// Create implements nfsclient.Client, in one compound. Never UNCHECKED: its answer does not say
// whether the file is new or another client's. With exclusive a file that was made before the server
// lost its session is known again: by a mark, or, for a user who has kept none yet, by a verifier. The
// server may keep that in the file's times, which are therefore always set, and in a second compound: in
// the first they would take the verifier away from a file whose OPEN must be sent again.
func (c *Client) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, mode nfsclient.OpenMode) (nfsclient.Made, error) {
	if err := c.checkName("CREATE", name); err != nil {
		return nfsclient.Made{}, err
	}
	// refused: the server has made nothing. Whoever makes the call may still be at it after its caller has given up.
	var refused atomic.Bool
	try := func(how exclusion, names bool) (m nfsclient.Made, err error) {
		x, err := c.creation(cr, dir, name, s, how, names, mode)
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
		if exclusive && s.SetAtime == nfsclient.TimeKeep {
			if mark, ok := c.marks.Next(cr.UID); ok {
				m, err = try(exclusion{mark: mark}, names)
				if st, _ := nfsclient.StatusOf(err); !refused.Load() || st != nfsclient.ErrPerm && st != nfsclient.ErrInval && st != nfsclient.ErrNotSupp {
					return err
				}
				c.marks.Refuse() // perhaps for the time
			}
		}
		m, err = try(exclusion{verifier: exclusive, may: c.fs.exclusive}, names)
		if st, _ := nfsclient.StatusOf(err); exclusive && (st == nfsclient.ErrInval || st == nfsclient.ErrNotSupp) && refused.Load() && !c.fs.exclusive.Empty() {
			// Another file system below the root may take other attributes.
			m, err = try(exclusion{verifier: true}, names)
		}
		if !refused.Load() {
			err = settle(err) // not to be tried again
		}
		return err
	})
	return m, settle(err)
}

// exclusion says how a file that must not exist before is known again: by its mark, or by a verifier, with which may
// can be set. The zero value is that of a file that need not be.
type exclusion struct {
	mark     time.Time
	verifier bool
	may      wire.Bitmap
}

// creation makes the compound.
func (c *Client) creation(cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, how exclusion, names bool, mode nfsclient.OpenMode) (*creation, error) {
	x := &creation{open: &wire.Open{Claim: wire.ClaimNull, Name: name, Create: true, Mode: wire.Guarded}, fh: &wire.GetFH{}, mark: how.mark}
	if !how.mark.IsZero() {
		s.SetAtime, s.Atime = nfsclient.TimeClient, how.mark
	}
	x.state = c.newOpen(cr, "", mode)
	x.open.Access = shareAccess(mode)
	x.open.Attrs = c.toMake(&s, c.fs.make, names)
	ops := []wire.Operation{&wire.PutFH{Handle: dir}, x.open, x.fh}
	x.getFH = 2
	if how.verifier {
		x.open.Mode = wire.Exclusive1
		if _, err := rand.Read(x.open.Verifier[:]); err != nil {
			return nil, err
		}
		rest := &wire.SetAttr{Stateid: wire.AnonymousStateid}
		if s.SetAtime == nfsclient.TimeKeep {
			s.SetAtime = nfsclient.TimeServer
			x.mayMark = true
		}
		if s.SetMtime == nfsclient.TimeKeep {
			s.SetMtime = nfsclient.TimeServer
		}
		rest.Attrs = c.toMake(&s, wire.Bitmap{}, names)
		x.open.Attrs = c.toMake(&s, c.fs.make.And(how.may), names)
		if x.open.Attrs.Has(wire.AttrModeUmask) {
			rest.Attrs.Mask.Remove(wire.AttrMode)
		}
		x.open.Attrs.Mask = x.open.Attrs.Mask.And(how.may).Without(wire.BitmapOf(wire.AttrTimeAccessSet, wire.AttrTimeModifySet))
		rest.Attrs.Mask = rest.Attrs.Mask.Without(x.open.Attrs.Mask)
		x.rest = rest
	} else {
		x.attr, ops = len(ops), append(ops, c.getattr())
	}
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
	q, sent := &x.q, time.Now()
	if err := c.do(ctx, cr, q); err != nil {
		if st, _ := nfsclient.StatusOf(err); st == nfsclient.ErrExist && q.again && !x.mark.IsZero() {
			return c.recognize(ctx, cr, dir, name, x, mode, err)
		}
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
	c.isOf(x.state, m.Handle)
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
	var a nfsclient.Attr
	var ok bool
	if x.rest == nil {
		a, ok = c.postOf(q, x.attr)
	} else if a, ok, err = c.setRest(ctx, cr, x, m.Handle); err != nil {
		return m, err
	}
	if !ok {
		m.Late = true
		if a, err = c.GetAttr(ctx, cr, m.Handle); err != nil {
			return m, err
		}
	}
	if ok && !q.again {
		c.marks.Made(sent, a.Ctime)
		if !x.mark.IsZero() {
			c.marks.Tried(cr.UID, x.mark, a.Atime)
		}
	}
	m.Attr = a
	m.Dir = c.dirWcc(q, x.open.Change, x.dirAttr)
	return m, nil
}

// isOf gives an opening that was just made its file.
func (c *Client) isOf(o *openState, h nfsclient.Handle) {
	o.h = h
	if o.access&nfsclient.OpenWrite != 0 && c.delegated() {
		o.altered, _ = c.altering(h) // a new file has no delegation that would have to be returned
	}
}

// setRest gives a file that was made with a verifier what it does not have yet, and a mark if that may be. ok is false if no
// attributes came back.
func (c *Client) setRest(ctx context.Context, cr nfsclient.Cred, x *creation, h nfsclient.Handle) (a nfsclient.Attr, ok bool, err error) {
	plain := x.rest.Attrs.TimeAccessSet
	if x.mayMark {
		if mark, ok := c.marks.Candidate(); ok {
			x.mark = mark
			x.rest.Attrs.TimeAccessSet = wire.SetTime{How: nfsclient.TimeClient, Time: wire.TimeOf(mark)}
		}
	}
	for {
		q := &request{op: "SETATTR", at: 1}
		q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: h}, x.rest, c.getattr()}, true
		switch err := c.do(ctx, cr, q); {
		case err == nil:
			a, ok = c.postOf(q, 2)
			return a, ok, nil
		case x.mark.IsZero() || !answered(err):
			return a, false, err
		}
		c.marks.Refuse() // perhaps it refuses the time
		x.mark, x.rest.Attrs.TimeAccessSet = time.Time{}, plain
	}
}

// recognize is the result of an OPEN that was sent more than once and found the name taken: by the file that it has itself made,
// if that has the mark.
func (c *Client) recognize(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, x *creation, mode nfsclient.OpenMode, taken error) (m nfsclient.Made, err error) {
	f, err := c.Lookup(ctx, cr, dir, name)
	if err != nil {
		return m, taken
	}
	m.Handle, m.Late = f.Handle, true
	if m.Attr, err = c.GetAttr(ctx, cr, f.Handle); err != nil || m.Attr.Type != nfsclient.Regular || !m.Attr.Atime.Equal(x.mark) {
		return nfsclient.Made{}, taken
	}
	if mode == 0 {
		return m, nil
	}
	c.isOf(x.state, m.Handle)
	if _, err := c.open(ctx, x.state, &wire.Open{Claim: wire.ClaimFH}); err != nil {
		x.state.end()
		return nfsclient.Made{}, err
	}
	if !c.keep(x.state) {
		return nfsclient.Made{}, transport.ErrClosed
	}
	m.State = x.state
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
