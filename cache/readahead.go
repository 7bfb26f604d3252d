package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// readAhead notes a read of [off, off+n) and starts READs of what follows. If whole is
// not 0, the READ for it is to ask for so many bytes.
func (f *File) readAhead(off int64, n int) (whole int) {
	c, i := f.c, f.i
	bound := c.policy.Load().readAhead
	if bound == 0 || f.mode.Direct {
		return 0
	}
	i.mu.Lock()
	size := int64(min(i.node.Size, uint64(maxOffset)))
	i.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	whole = f.window.Whole(off, n, size, min(c.cfg.RSize, bound))
	from, to := f.window.Read(off, n, bound)
	for {
		n := f.window.Piece(from, to, size, int64(c.cfg.RSize))
		if n == 0 {
			break
		}
		k := f.startAhead(from, n)
		if k == 0 {
			break
		}
		from += k
		f.window.Started(from)
	}
	for {
		off, n := f.window.Record(size, int64(c.cfg.RSize))
		if n == 0 || f.startAhead(off, n) == 0 {
			return whole
		}
	}
}

// startAhead starts a READ of [off, off+n) unless it is listed as a span, and
// returns how many bytes from off on are listed then; 0 if there is no memory.
func (f *File) startAhead(off int64, n int) int64 {
	c, i := f.c, f.i
	buf, ok := c.pool.TryGet(n)
	if !ok {
		return 0
	}
	i.mu.Lock()
	s, next := i.spans.Find(off)
	if s != nil {
		i.mu.Unlock()
		buf.Release()
		return s.Off + int64(s.Ask) - off
	}
	n = int(min(int64(n), next-off))
	i.spans.Trim(2 * c.cfg.ReadAhead)
	s = i.addSpan(off, n, buf, true)
	i.refs.Add(1)
	i.mu.Unlock()
	o := f.open.hold()
	if !c.spawn(func() { i.runFetch(i.detached(), f.cr, o, s) }) {
		o.release()
		i.mu.Lock()
		s.Fetched(0, ErrClosed)
		i.leaveSpan(s, 0)
		i.mu.Unlock()
		i.unpin()
		return 0
	}
	return int64(n)
}

// runFetch reads one span ahead; Close joins it.
func (i *Inode) runFetch(ctx context.Context, cr nfsclient.Cred, o *opening, s *span) {
	// A read of these bytes tries again, and returns the error.
	_ = i.fetch(ctx, cr, o, s)
	o.release()
	i.mu.Lock()
	i.leaveSpan(s, 0)
	i.mu.Unlock()
	i.unpin()
}
