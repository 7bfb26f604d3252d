package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Read reads the file from off into dst; fewer bytes than asked for mean that it
// ends there. It sees what was written here, whether the server has it or not.
func (f *File) Read(ctx context.Context, dst []byte, off int64) (int, error) {
	return f.read(ctx, dst, off, nil)
}

// read is Read, or ReadLent if lent is not nil.
func (f *File) read(ctx context.Context, dst []byte, off int64, lent *Lent) (int, error) {
	if !f.mode.Read {
		return 0, ErrBadMode
	}
	if f.lockLost.Load() {
		return 0, ErrLockLost
	}
	if off < 0 {
		return 0, localError("READ", nfsclient.ErrInval)
	}
	dst = dst[:min(int64(len(dst)), maxOffset-off)]
	if len(dst) == 0 {
		return 0, nil
	}
	i := f.i
	end := off + int64(len(dst))
	if f.mode.Direct {
		if err := i.drainRange(ctx, off, end); err != nil {
			return 0, err
		}
	}
	i.mu.Lock()
	if i.spans.Len() > 0 && !i.node.Changing() && !i.fresh(i.c.cfg.Now()) {
		// What was read ahead may be older than the attributes allow. A READ would
		// return new ones with its reply.
		i.mu.Unlock()
		if err := i.c.revalidate(ctx, f.cr, i); err != nil {
			return 0, err
		}
		i.mu.Lock()
	}
	if i.wb.Empty() {
		i.mu.Unlock()
		return f.readClean(ctx, dst, off, lent)
	}
	if i.wb.Covers(off, end) {
		i.wb.Overlay(dst, off)
		i.mu.Unlock()
		i.c.counts.dataHits.Add(1)
		return len(dst), nil
	}
	// Written data may be committed, and dropped here, between the server's reply to
	// our READ and the Overlay below. A snapshot of what there is now is therefore
	// laid over the reply first.
	had, size := i.wb.Snapshot(off, end), i.wb.End()
	i.mu.Unlock()
	got, err := f.readServer(ctx, dst, off, nil)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		size = min(end, max(size, i.wb.End()))
		if size > off+int64(got) {
			clear(dst[got : size-off])
			got = int(size - off)
		}
		had.Overlay(dst[:got], off)
		i.wb.Overlay(dst[:got], off)
	}
	i.wb.Forget(&had)
	if err != nil {
		return 0, err
	}
	return got, nil
}

// readClean reads a file that has no written data. Data written meanwhile may or may
// not be seen: that write and this read are concurrent.
func (f *File) readClean(ctx context.Context, dst []byte, off int64, lent *Lent) (int, error) {
	got, err := f.readServer(ctx, dst, off, lent)
	if err != nil {
		return 0, err
	}
	if got < len(dst) {
		// A write may have made the file longer meanwhile: a kernel that is given
		// the old end would cut the file there.
		i := f.i
		i.mu.Lock()
		defer i.mu.Unlock()
		if size := min(off+int64(len(dst)), i.wb.End()); size > off+int64(got) {
			lent.copyOut(dst)
			clear(dst[got : size-off])
			got = int(size - off)
			i.wb.Overlay(dst[:got], off)
		}
	}
	return got, nil
}

// drainRange returns when nothing written before in [off, end) is unsent.
func (i *Inode) drainRange(ctx context.Context, off, end int64) error {
	i.mu.Lock()
	over := i.wb.UnsentIn(off, end)
	i.mu.Unlock()
	if !over {
		return nil
	}
	return i.drain(ctx)
}

// readServer reads what the server has, from what was read ahead or with READs of
// just what is missing. With lent, data that stands in one span is lent, not copied.
func (f *File) readServer(ctx context.Context, dst []byte, off int64, lent *Lent) (got int, err error) {
	i := f.i
	whole := f.readAhead(off, len(dst))
	share := true
	for got < len(dst) {
		pos := off + int64(got)
		want := min(len(dst)-got, i.c.cfg.RSize)
		i.mu.Lock()
		s, next := i.spans.Find(pos)
		shared := s != nil && share
		var fetched <-chan struct{} // nil: it is
		if shared {
			fetched = s.Join()
			i.mu.Unlock()
			i.c.counts.dataHits.Add(1)
		} else {
			i.mu.Unlock()
			i.c.counts.dataMisses.Add(1)
			ask := max(want, whole)
			if share {
				ask = int(min(int64(ask), next-pos))
			}
			if s, fetched, err = f.fetchHere(ctx, pos, ask, share, ask > want); err != nil {
				if ask > want && ctx.Err() == nil {
					whole = 0 // what was not asked for may be what cannot be read
					continue
				}
				return got, err
			}
			whole = 0
		}
		if fetched != nil {
			select {
			case <-fetched:
			case <-ctx.Done():
				i.mu.Lock()
				i.leaveSpan(s, 0)
				i.mu.Unlock()
				return got, ctx.Err()
			}
		}
		// s.N and s.Err do not change any more.
		n := 0
		if have := int64(s.N) - (pos - s.Off); s.Err == nil && have > 0 {
			n = min(len(dst)-got, int(have))
		}
		ended := s.Err == nil && s.N < s.Ask && pos+int64(n) == s.Off+int64(s.N)
		over := s.Err == nil && n == 0
		if lent != nil && n > 0 && (n == len(dst) || ended && got == 0 && !shared) {
			lent.take(i, s, int(pos-s.Off), n)
			return n, nil
		}
		if n > 0 {
			copy(dst[got:], s.Buf.Bytes()[pos-s.Off:][:n])
		}
		// A shared READ may have failed because of its own user or context, or have
		// found the end of the file where it was before a later write.
		share = s.Err == nil && !ended && !over
		i.mu.Lock()
		i.leaveSpan(s, n)
		i.mu.Unlock()
		got += n
		if (ended || over) && !shared {
			return got, nil
		}
	}
	return got, nil
}

// fetchHere reads n bytes as a span that other reads may share meanwhile, and later
// with ahead; with share, it may return another's span, which is there when fetched is
// closed. The caller becomes its user, unless there is an error.
func (f *File) fetchHere(ctx context.Context, off int64, n int, share, ahead bool) (s *span, fetched <-chan struct{}, err error) {
	i := f.i
	buf, err := i.c.pool.Get(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	i.mu.Lock()
	if s, _ := i.spans.Find(off); s != nil && share { // begun while we had no lock
		fetched = s.Join()
		i.mu.Unlock()
		buf.Release()
		return s, fetched, nil
	}
	s = i.addSpan(off, n, buf, ahead)
	i.mu.Unlock()
	if err := i.fetch(ctx, f.cr, f.open, s); err != nil {
		i.mu.Lock()
		i.leaveSpan(s, 0)
		i.mu.Unlock()
		return nil, nil, err
	}
	return s, nil, nil
}
