package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Write writes src at off. The bytes are staged, to be sent in the background,
// unless the file was opened Sync or Direct or the mount is noac: then they
// are on stable storage when Write returns. An error of earlier background
// writes is returned here until Fsync has told of it; nothing is written then.
// What is stable at once is tried all the same: its result is its own.
func (f *File) Write(ctx context.Context, src []byte, off int64) (int, error) {
	return f.take(ctx, src, off, false)
}

// take is Write, or Append with atEnd.
func (f *File) take(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	src, err := f.mayWrite(src, off)
	if err != nil {
		return 0, err
	}
	switch {
	case len(src) == 0:
		return 0, f.pending()
	case f.mode.Direct:
		return f.writeDirect(ctx, src, off, atEnd)
	case f.mode.Sync || f.c.cfg.NoAC:
		return f.writeThrough(ctx, src, off, atEnd)
	}
	if err := f.pending(); err != nil {
		return 0, err
	}
	return f.write(ctx, src, off, atEnd)
}

// WriteBack is Write for the kernel's pages that were stored to by a mapping,
// which may be one of a file opened Direct.
// No error of another write has it refused: nobody would write those pages
// again.
func (f *File) WriteBack(ctx context.Context, src []byte, off int64) (int, error) {
	src, err := f.mayWrite(src, off)
	if err != nil {
		return 0, err
	}
	return f.write(ctx, src, off, false)
}

// mayWrite is the start of src that can be written at off.
func (f *File) mayWrite(src []byte, off int64) ([]byte, error) {
	if !f.mode.Write {
		return nil, ErrBadMode
	}
	return f.c.fit(src, off)
}

// write stages src, at the end of the file with atEnd, and says how much of it
// could be.
func (f *File) write(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	n, err := f.stage(ctx, src, off, atEnd)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// writeThrough returns when src is on stable storage, or with what kept it from
// there.
func (f *File) writeThrough(ctx context.Context, src []byte, off int64, atEnd bool) (int, error) {
	f.i.mu.Lock()
	before := f.i.wb.errors
	f.i.mu.Unlock()
	n, err := f.write(ctx, src, off, atEnd)
	if err != nil {
		return n, err
	}
	if err := f.i.sync(ctx); err != nil {
		return 0, err
	}
	f.i.mu.Lock()
	err = f.i.wb.errorSince(before)
	f.i.mu.Unlock()
	if err != nil {
		return 0, f.i.heard(err)
	}
	return n, nil
}

// stage copies src into dirty extents.
func (f *File) stage(ctx context.Context, src []byte, off int64, atEnd bool) (done int, err error) {
	i, c := f.i, f.c
	kernel := off // where it has put the bytes
	var spare bufpool.Lease
	defer func() {
		if spare.Valid() {
			n := spare.Len()
			spare.Release()
			c.unstage(n)
		}
	}()
	for done < len(src) {
		i.mu.Lock()
		if off, err = i.place(off, len(src)-done, atEnd); err != nil {
			i.mu.Unlock()
			return done, err
		}
		if i.wb.frozen || i.crowded() || i.incompatible(f.key, off, off+int64(len(src)-done)) {
			wake := i.sleeper()
			i.mu.Unlock()
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return done, ctx.Err()
			}
		}
		n, need := i.put(f, src[done:], off, &spare)
		if n > 0 {
			i.detachSpans(off, off+int64(n))
			if off != kernel {
				i.doubt()
			}
			i.list()
			i.start()
		}
		i.unlock()
		done += n
		off += int64(n)
		kernel += int64(n)
		if need > 0 {
			if spare.Valid() {
				k := spare.Len()
				spare.Release()
				spare = bufpool.Lease{}
				c.unstage(k)
			}
			if spare, err = c.lease(ctx, need); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// incompatible says whether [off, end) holds data of another user that has not
// been sent, and has it sent: a WRITE is one user's. mu is held.
func (i *Inode) incompatible(k userKey, off, end int64) bool {
	w := &i.wb
	found := false
	for n := w.dirty.from(off); n < len(w.dirty) && w.dirty[n].off < end; n++ {
		if e := w.dirty[n]; e.key != k {
			e.ready, found = true, true
		}
	}
	if found {
		i.start()
	}
	return found
}

// put copies the start of src into the dirty layer and says how much. If it
// could not, need is how large a spare buffer it wants for going on. mu is
// held.
func (i *Inode) put(f *File, src []byte, off int64, spare *bufpool.Lease) (n, need int) {
	w := &i.wb
	k := w.dirty.from(off)
	if k < len(w.dirty) && w.dirty[k].off <= off { // overwrite
		w.seq++
		return copy(w.dirty[k].bytes()[off-w.dirty[k].off:], src), 0
	}
	// Extents end at multiples of wsize, so that WRITEs are aligned.
	block := int64(i.c.cfg.WSize)
	stop := off - off%block + block
	if stop < 0 {
		stop = maxOffset
	}
	room := stop - off
	if k < len(w.dirty) {
		room = min(room, w.dirty[k].off-off)
	}
	n = int(min(int64(len(src)), room))
	if off%block != 0 && k > 0 {
		if e := w.dirty[k-1]; e.end() == off && e.key == f.key && e.st.refs == 1 {
			return i.extend(e, src[:n], int(stop-e.off), spare)
		}
	}
	need = n
	if k > 0 && w.dirty[k-1].end() == off || w.flight.endsAt(off) || w.unstable.endsAt(off) {
		need = int(stop - off) // a stream goes on
	}
	if spare.Len() < n || !spare.Valid() {
		return 0, need
	}
	w.seq++
	e := &extent{off: off, n: n, st: &stage{buf: *spare, open: f.open.hold(), refs: 1}, cr: f.cr, key: f.key, seq: w.seq, born: time.Now()}
	*spare = bufpool.Lease{}
	copy(e.bytes(), src)
	e.ready = e.n == int(block)
	w.dirty.insert(e)
	return n, 0
}

func (l layer) endsAt(off int64) bool {
	k := l.from(off - 1)
	return k < len(l) && l[k].end() == off
}

// extend appends src to e, which may become most bytes long.
func (i *Inode) extend(e *extent, src []byte, most int, spare *bufpool.Lease) (n, need int) {
	w := &i.wb
	have := e.st.buf.Len() - e.at - e.n
	if have == 0 {
		want := min(most, max(e.n+len(src), 8*e.n))
		if !spare.Valid() || spare.Len() <= e.n {
			return 0, want
		}
		copy(spare.Bytes(), e.bytes())
		grown := &stage{buf: *spare, open: e.st.open.hold(), refs: 1}
		i.unref(e.st)
		e.st, e.at = grown, 0
		*spare = bufpool.Lease{}
		have = e.st.buf.Len() - e.n
	}
	w.seq++
	n = min(have, len(src))
	copy(e.st.buf.Bytes()[e.at+e.n:], src[:n])
	e.n += n
	e.ready = e.ready || e.n == most
	return n, 0
}

// writeDirect sends src without staging it, after what it overlaps.
func (f *File) writeDirect(ctx context.Context, src []byte, off int64, atEnd bool) (done int, err error) {
	i, c := f.i, f.c
	for done < len(src) {
		n := min(len(src)-done, c.cfg.WSize)
		buf, err := c.lease(ctx, n)
		if err != nil {
			return done, err
		}
		copy(buf.Bytes(), src[done:done+n])
		e := &extent{off: off, n: n, st: &stage{buf: buf, open: f.open.hold(), refs: 1}, cr: f.cr, key: f.key}
		if err := i.claim(ctx, e, atEnd); err != nil {
			f.open.release()
			buf.Release()
			c.unstage(buf.Len())
			return done, err
		}
		var how nfsclient.Stable
		err = i.carryOut(ctx, func(ctx context.Context) error {
			h, ver, err := i.sendPatiently(ctx, e, nfsclient.FileSync)
			how = h
			i.directDone(e, h, ver, err)
			return err
		})
		if err == ErrClosed {
			i.directDone(e, 0, nfsclient.Verifier{}, err)
		}
		if err != nil {
			return done, err
		}
		if how == nfsclient.Unstable { // in spite of what was asked for
			if err := i.sync(ctx); err != nil {
				return done, err
			}
		}
		done += n
		off = e.end()
	}
	return done, nil
}

// directDone ends the unstaged write of e.
func (i *Inode) directDone(e *extent, how nfsclient.Stable, ver nfsclient.Verifier, err error) {
	i.mu.Lock()
	defer i.unlock()
	i.wb.direct--
	if err != nil {
		// Told to the caller here and now, so nothing is kept.
		i.wb.flight.remove(e)
		i.dropExtent(e)
		i.list()
		i.awaken()
	} else {
		i.sent(e, how, ver, false, nil)
	}
	i.start()
}

// claim puts e in flight once nothing unsent overlaps it.
func (i *Inode) claim(ctx context.Context, e *extent, atEnd bool) (err error) {
	w := &i.wb
	kernel := e.off // where it has put the bytes
	for {
		i.mu.Lock()
		if e.off, err = i.place(e.off, e.n, atEnd); err != nil {
			i.mu.Unlock()
			return err
		}
		if !w.frozen && !w.dirty.overlaps(e.off, e.end()) && !w.flight.overlaps(e.off, e.end()) {
			w.seq++
			e.seq = w.seq
			w.flight.insert(e)
			w.direct++
			if e.off != kernel {
				i.doubt()
			}
			i.detachSpans(e.off, e.end())
			i.list()
			i.unlock()
			return nil
		}
		for k := w.dirty.from(e.off); k < len(w.dirty) && w.dirty[k].off < e.end(); k++ {
			w.dirty[k].ready = true
		}
		i.start()
		wake := i.sleeper()
		i.unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
