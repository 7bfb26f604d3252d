package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// SetAttr changes attributes. What was written before is sent first, so that
// it neither overtakes a truncation nor moves times that are being set, nor
// finds rights taken away.
func (c *Cache) SetAttr(ctx context.Context, cr nfsclient.Cred, i *Inode, s nfsclient.SetAttr) (nfsclient.Attr, time.Duration, error) {
	return c.setAttrOf(ctx, cr, i, nil, s)
}

// SetAttr is Cache.SetAttr for who has the file open.
func (f *File) SetAttr(ctx context.Context, cr nfsclient.Cred, s nfsclient.SetAttr) (nfsclient.Attr, time.Duration, error) {
	return f.c.setAttrOf(ctx, cr, f.i, f.open, s)
}

func (c *Cache) setAttrOf(ctx context.Context, cr nfsclient.Cred, i *Inode, o *opening, s nfsclient.SetAttr) (nfsclient.Attr, time.Duration, error) {
	if err := c.altering.begin("SETATTR"); err != nil {
		return nfsclient.Attr{}, 0, err
	}
	defer c.altering.end()
	if i.typ == nfsclient.Regular {
		if s.Size != nil {
			if *s.Size > uint64(c.maxSize) {
				return nfsclient.Attr{}, 0, localError("SETATTR", nfsclient.ErrFBig)
			}
			return c.truncate(ctx, cr, i, o, s)
		}
		if err := i.drain(ctx); err != nil {
			return nfsclient.Attr{}, 0, err
		}
	}
	complete, err := c.setAttr(ctx, cr, i, o, s)
	return c.newAttr(ctx, cr, i, complete, err)
}

// truncate changes a file's size, and what else s says.
func (c *Cache) truncate(ctx context.Context, cr nfsclient.Cred, i *Inode, o *opening, s nfsclient.SetAttr) (nfsclient.Attr, time.Duration, error) {
	if err := i.freeze(ctx); err != nil {
		return nfsclient.Attr{}, 0, err
	}
	var complete bool
	o.hold() // the call may outlive the opening
	err := i.carryOut(ctx, func(ctx context.Context) (err error) {
		defer o.release()
		defer i.thaw()
		complete, err = c.setAttr(ctx, cr, i, o, s)
		return err
	})
	if err == ErrClosed {
		o.release()
		i.thaw()
	}
	return c.newAttr(ctx, cr, i, err == nil && complete, err)
}

// setAttr makes the call. complete says that attributes came with the answer.
func (c *Cache) setAttr(ctx context.Context, cr nfsclient.Cred, i *Inode, o *opening, s nfsclient.SetAttr) (complete bool, err error) {
	st := i.begin()
	w, err := c.cl.SetAttr(ctx, cr, i.h, o.server(), s)
	i.mu.Lock()
	i.finish(st, &w, true)
	if err == nil && s.Size != nil {
		i.truncated(int64(min(*s.Size, uint64(maxOffset))))
	}
	if err == nil && (s.Mode != nil || s.UID != nil || s.GID != nil) {
		i.dropRights()
	}
	i.mu.Unlock()
	if err != nil {
		i.failed(err)
	}
	return w.After.Set, err
}

// newAttr is the answer to SetAttr.
func (c *Cache) newAttr(ctx context.Context, cr nfsclient.Cred, i *Inode, complete bool, err error) (nfsclient.Attr, time.Duration, error) {
	if err != nil {
		return nfsclient.Attr{}, 0, err
	}
	if !complete {
		if err := c.revalidate(ctx, cr, i); err != nil {
			return nfsclient.Attr{}, 0, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.outward(), i.attrTTL(c.cfg.Now()), nil
}

// freeze holds off writes and waits until those before are sent, and then
// holds off COMMITs too. thaw must follow if it succeeds.
func (i *Inode) freeze(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ownWritten()
	for !i.wb.BeginTruncate() {
		if err := i.wait(ctx); err != nil {
			return err
		}
	}
	for i.wb.Truncate() != writeback.Done {
		i.pump()
		if err := i.wait(ctx); err != nil {
			i.wb.DropTruncate()
			i.pump()
			return err
		}
	}
	return nil
}

func (i *Inode) thaw() {
	i.mu.Lock()
	i.wb.EndTruncate()
	i.pump()
	i.mu.Unlock()
}

// truncated forgets what lay behind size; mu is held.
func (i *Inode) truncated(size int64) {
	i.detachSpans(0, maxOffset)
	i.wb.Truncated(size)
	i.node.Resize(uint64(size))
	i.list()
}
