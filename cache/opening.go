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

// openServer opens i at the server.
func (c *Cache) openServer(ctx context.Context, cr nfsclient.Cred, i *Inode, mode OpenMode) (*opening, error) {
	st := c.stamp()
	r, err := c.cl.OpenFile(ctx, cr, i.h, mode.server())
	if err != nil {
		i.failed(err)
		return nil, err
	}
	if r.Attr != nil {
		i.mu.Lock()
		i.note(st, r.Attr)
		i.mu.Unlock()
	}
	return c.newOpening(cr, i.h, r.State), nil
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
