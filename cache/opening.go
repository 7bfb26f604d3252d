package cache

import (
	"context"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// opening is what the server keeps of an open file, until nothing needs it any
// more: the File, data that is not written, a READ ahead. It is nil where the
// protocol does not open files.
type opening struct {
	c     *Cache
	cr    nfsclient.Cred
	h     nfsclient.Handle
	state nfsclient.OpenState
	refs  atomic.Int32
}

// newOpening takes what a Client returned, with a reference for the caller.
func (c *Cache) newOpening(cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState) *opening {
	if st == nil {
		return nil
	}
	o := &opening{c: c, cr: cr, h: h, state: st}
	o.refs.Store(1)
	return o
}

// openServer opens i at the server, if the protocol opens files. What it has said of the
// file with that is taken over, and returned.
func (c *Cache) openServer(ctx context.Context, cr nfsclient.Cred, i *Inode, mode OpenMode) (*opening, nfsclient.Opened, error) {
	st := c.stamp()
	r, err := c.cl.OpenFile(ctx, cr, i.h, mode.server())
	if err != nil {
		i.failed(err)
		return nil, r, err
	}
	switch {
	case r.Asked != 0:
		k := c.user(&cr)
		i.mu.Lock()
		i.answered(st, r.Attr, k, r.Asked, r.Granted)
		i.mu.Unlock()
	case r.Attr != nil:
		i.mu.Lock()
		i.note(st, r.Attr)
		i.mu.Unlock()
	}
	return c.newOpening(cr, i.h, r.State), r, nil
}

// rights are those that the user needs.
func (m OpenMode) rights() (want nfsclient.AccessMask) {
	if m.Write || m.Truncate { // servers let an owner truncate a file without the right to write
		want |= nfsclient.AccessModify
	}
	switch {
	case m.Execute:
		want |= nfsclient.AccessExecute
	case m.Read:
		want |= nfsclient.AccessRead
	}
	return want
}

// mayOpen checks the user's rights and sees to attributes from the server, of the time of
// the opening. With both in r, which came with that, it needs no call; without one of them,
// one call: an ACCESS unless the rights are known, else a GETATTR.
func (c *Cache) mayOpen(ctx context.Context, cr nfsclient.Cred, i *Inode, mode OpenMode, r *nfsclient.Opened) error {
	want := mode.rights()
	k := c.user(&cr)
	got, known, fresh := r.Granted&want, r.Asked != 0 && r.Asked&want == want, r.Attr != nil
	if !known {
		i.mu.Lock()
		got, known = i.granted(k, want, c.cfg.Now())
		i.mu.Unlock()
	}
	if known && !fresh && !c.cfg.NoCTO {
		if err := c.revalidate(ctx, cr, i); err != nil {
			return err
		}
		fresh = true
		// The attributes just fetched may have invalidated rights.
		i.mu.Lock()
		got, known = i.rights.Last(k, want)
		i.mu.Unlock()
	}
	if !known {
		var came bool
		var err error
		got, came, err = c.askAccess(ctx, cr, k, i, want)
		if err != nil {
			return err
		}
		if !came && !fresh {
			if err := c.revalidate(ctx, cr, i); err != nil {
				return err
			}
		}
	}
	if got&want != want {
		return localError("ACCESS", nfsclient.ErrAccess)
	}
	return nil
}

// server is what the server is told of the mode.
func (m OpenMode) server() (to nfsclient.OpenMode) {
	if m.Read || m.Execute {
		to |= nfsclient.OpenRead
	}
	if m.Write {
		to |= nfsclient.OpenWrite
	}
	return to
}

// hold returns o with one more reference.
func (o *opening) hold() *opening {
	if o != nil {
		o.refs.Add(1)
	}
	return o
}

// Hold is hold, for write-back.
func (o *opening) Hold() { o.hold() }

// Release is release, for write-back.
func (o *opening) Release() { o.release() }

// release gives a reference back. With the last one the server is told, in the
// background: any lock but Cache.mu may be held. When the mount has ended the
// Client gives everything back.
func (o *opening) release() {
	if o != nil && o.refs.Add(-1) == 0 {
		o.c.spawn(func() { o.runClose(o.c.life) })
	}
}

// runClose tells the server that the file is closed; Close joins it.
func (o *opening) runClose(ctx context.Context) {
	if err := o.c.cl.CloseFile(ctx, o.cr, o.h, o.state); err != nil {
		o.c.cfg.Log.Debug("file not closed at the server", "error", err)
	}
}

// server is what calls for the opening carry.
func (o *opening) server() nfsclient.OpenState {
	if o == nil {
		return nil
	}
	return o.state
}
