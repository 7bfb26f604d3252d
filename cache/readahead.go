package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

const (
	// firstWindow is the read-ahead window of a stream that was just seen.
	firstWindow = 128 << 10
	// largeRead is what only a stream asks for: one is enough to see it.
	largeRead = 32 << 10
)

// readAhead is how an open file is being read. File.mu guards it.
type readAhead struct {
	end    int64 // where the stream stands
	run    int   // how many reads it had
	window int
	next   int64 // what was asked for ahead ends here
}

// advance notes a read and says which stretch to read ahead now. The kernel's
// own read-ahead sends large reads side by side, so those may come out of
// order; small ones are a stream only if each begins where the last ended.
func (r *readAhead) advance(off int64, n int, most int) (from, to int64) {
	end := off + int64(n)
	near := off == r.end
	if n >= largeRead {
		slack := 2 * int64(n)
		near = off <= r.end+slack && end+slack >= r.end
	}
	if !near {
		*r = readAhead{end: end, run: 1}
		return 0, 0
	}
	r.run++
	r.end = max(r.end, end)
	if r.run < 2 && n < largeRead || r.run < 3 && off == 0 && n < largeRead {
		return 0, 0
	}
	switch {
	case r.window == 0:
		r.window = max(firstWindow, 2*n)
	case r.next-r.end <= int64(r.window)/2:
		r.window *= 2
	}
	r.window = min(r.window, most)
	return max(r.next, r.end), r.end + int64(r.window)
}

// readAhead starts READs of what the reader of [off, off+n) will want next.
func (f *File) readAhead(off int64, n int) {
	c, i := f.c, f.i
	if c.cfg.ReadAhead == 0 || f.mode.Direct {
		return
	}
	i.mu.Lock()
	size := int64(min(i.node.Size, uint64(maxOffset)))
	i.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to := f.ra.advance(off, n, c.cfg.ReadAhead)
	to = min(to, size)
	rsize := int64(c.cfg.RSize)
	for from < to {
		stop := min(from-from%rsize+rsize, to)
		if stop < size && stop%rsize != 0 && stop-from < int64(f.ra.window)/2 {
			break // wait until it makes a larger READ
		}
		k := f.startAhead(from, int(stop-from))
		if k == 0 {
			break
		}
		from += k
		f.ra.next = from
	}
}

// startAhead starts a READ of [off, off+n) unless that is being read, and says
// how far from off it is then taken care of; 0 if there is no memory.
func (f *File) startAhead(off int64, n int) int64 {
	c, i := f.c, f.i
	buf, ok := c.pool.TryGet(n)
	if !ok {
		return 0
	}
	i.mu.Lock()
	s, next := i.findSpan(off)
	if s != nil {
		i.mu.Unlock()
		buf.Release()
		return s.off + int64(s.ask) - off
	}
	n = int(min(int64(n), next-off))
	i.trimSpans(2 * c.cfg.ReadAhead)
	s = i.addSpan(off, n, buf, true)
	i.refs.Add(1)
	i.mu.Unlock()
	o := f.open.hold()
	if !c.spawn(func() { i.runFetch(c.life, f.cr, o, s) }) {
		o.release()
		i.mu.Lock()
		i.unlistSpan(s)
		i.mu.Unlock()
		buf.Release()
		i.unpin()
		return 0
	}
	return int64(n)
}

// trimSpans drops staged spans that nobody has asked for, while there are more
// than most bytes of them; mu is held.
func (i *Inode) trimSpans(most int) {
	held := 0
	for _, s := range i.spans {
		held += s.ask
	}
	for k := 0; held > most && k < len(i.spans); {
		s := i.spans[k]
		if s.users > 0 {
			k++
			continue
		}
		held -= s.ask
		i.unlistSpan(s)
		s.buf.Release()
	}
}

// runFetch reads one span ahead; Close joins it.
func (i *Inode) runFetch(ctx context.Context, cr nfsclient.Cred, o *opening, s *span) {
	// An error is left to whoever wants the bytes: it reads again.
	_ = i.fetch(ctx, cr, o, s)
	o.release()
	i.mu.Lock()
	i.leaveSpan(s, 0)
	i.mu.Unlock()
	i.unpin()
}
