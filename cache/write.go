package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Write writes src at off. The bytes become dirty, and are sent in the background,
// unless the file was opened Sync or Direct or the mount is noac: then they
// are stable when Write returns. An error of earlier background writes is returned
// here until Fsync has returned it; nothing is written then. Writes that are stable
// at once are tried all the same: each has a result of its own.
func (f *File) Write(ctx context.Context, src []byte, off int64) (int, error) {
	return f.writeOrAppend(ctx, src, off, false)
}

// writeOrAppend is Write, or Append with atEnd.
func (f *File) writeOrAppend(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	src, err := f.mayWrite(src, off)
	if err != nil {
		return 0, err
	}
	switch {
	case len(src) == 0:
		return 0, f.pending()
	case f.mode.Direct:
		return f.writeDirect(ctx, src, off, atEnd)
	case f.mode.Sync || f.c.policy.Load().NoAC:
		return f.writeThrough(ctx, src, off, atEnd)
	}
	if err := f.pending(); err != nil {
		return 0, err
	}
	return f.writeBehind(ctx, src, off, atEnd)
}

// WriteBack is Write for pages of the kernel that were changed through a mapping,
// even of a file opened Direct. It is never refused because of an earlier error:
// the kernel would not write those pages again. The kernel chooses f among the openings
// for writing: if f may not write, all of them have the error, as whoever stored to the
// pages may use another.
func (f *File) WriteBack(ctx context.Context, src []byte, off int64) (int, error) {
	src, err := f.mayWrite(src, off)
	if err != nil {
		f.i.mu.Lock()
		f.i.fail(err)
		f.i.mu.Unlock()
		return 0, err
	}
	return f.writeBehind(ctx, src, off, false)
}

// mayWrite is the start of src that can be written at off.
func (f *File) mayWrite(src []byte, off int64) ([]byte, error) {
	if !f.mode.Write {
		return nil, ErrBadMode
	}
	if f.lockLost.Load() {
		return nil, ErrLockLost
	}
	return f.c.fit(src, off)
}

// writeBehind makes src dirty, at the end of the file with atEnd, and says how much
// of it could be.
func (f *File) writeBehind(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	n, err := f.makeDirty(ctx, src, off, atEnd)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// writeThrough returns when src is stable, or with the error that kept it from that.
func (f *File) writeThrough(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	f.i.mu.Lock()
	before := f.i.wb.Errors().Count()
	f.i.mu.Unlock()
	n, err := f.writeBehind(ctx, src, off, atEnd)
	if err != nil {
		return n, err
	}
	if err := f.i.sync(ctx); err != nil {
		return 0, err
	}
	f.i.mu.Lock()
	err = f.i.wb.Errors().Since(before)
	f.i.mu.Unlock()
	if err != nil {
		return 0, f.i.reported(err)
	}
	return n, nil
}

// makeDirty gives src to the write-back, a buffer at a time.
func (f *File) makeDirty(ctx context.Context, src []byte, off int64, atEnd bool) (done int, err error) {
	i, c := f.i, f.c
	by := f.writer()
	kernel := off // where the kernel has put the bytes
	var spare bufpool.Lease
	var leased time.Time
	defer func() { c.giveBack(spare) }()
	for done < len(src) {
		i.mu.Lock()
		if off, err = i.place(off, len(src)-done, atEnd); err != nil {
			i.mu.Unlock()
			return done, err
		}
		t := i.wb.Write(leased, &by, src[done:], off, &spare)
		if t.N > 0 {
			i.detachSpans(off, off+int64(t.N))
			if off != kernel {
				i.doubt()
			}
		}
		if t.N > 0 || t.Blocked {
			i.pump()
		}
		if t.Blocked {
			if err := i.wait(ctx); err != nil {
				i.mu.Unlock()
				return done, err
			}
		}
		i.mu.Unlock()
		done += t.N
		off += int64(t.N)
		kernel += int64(t.N)
		if t.Need > 0 {
			c.giveBack(spare)
			spare = bufpool.Lease{}
			if spare, err = c.lease(ctx, t.Need); err != nil {
				return done, err
			}
			leased = c.cfg.Now()
		}
	}
	return done, nil
}

// writer is in whose name f writes.
func (f *File) writer() writeback.Writer {
	return writeback.Writer{Cred: f.cr, Key: writeback.UserKey(f.key), Opening: f.open}
}

// writeDirect sends src at once, after what it overlaps.
func (f *File) writeDirect(ctx context.Context, src []byte, off int64, atEnd bool) (done int, err error) {
	i, c := f.i, f.c
	for done < len(src) {
		n := min(len(src)-done, c.cfg.WSize)
		buf, err := c.lease(ctx, n)
		if err != nil {
			return done, err
		}
		copy(buf.Bytes(), src[done:done+n])
		e := writeback.Direct(f.writer(), buf, n)
		if err := i.claim(ctx, e, off, atEnd); err != nil {
			return done, err
		}
		w, err := i.carryOutWrite(ctx, e)
		if err != nil {
			return done, err
		}
		if w.How == nfsclient.Unstable { // in spite of what was asked for
			if err := i.sync(ctx); err != nil {
				return done, err
			}
		}
		done += n
		off = e.End()
	}
	return done, nil
}

// wroteDirect ends the direct write of e.
func (i *Inode) wroteDirect(e *writeback.Extent, w writeback.Written) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if w.Err == nil {
		i.node.Resize(max(i.node.Size, uint64(e.End())))
	}
	i.wb.WroteDirect(e, w)
	i.pump()
}

// claim puts e in flight once nothing unsent overlaps it. If it cannot, e is gone.
func (i *Inode) claim(ctx context.Context, e *writeback.Extent, off int64, atEnd bool) (err error) {
	kernel := off // where the kernel has put the bytes
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		if off, err = i.place(off, e.Len(), atEnd); err != nil {
			i.wb.Unclaim(e)
			return err
		}
		if i.wb.Claim(e, off) {
			break
		}
		i.pump()
		if err := i.wait(ctx); err != nil {
			i.wb.Unclaim(e)
			return err
		}
	}
	if off != kernel {
		i.doubt()
	}
	i.detachSpans(off, e.End())
	i.list()
	return nil
}
