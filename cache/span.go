package cache

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// span is a range of a file that is being read or, with ahead, has been read ahead.
// Every read of a part of it shares it while it is listed in Inode.spans. All but
// done and the buffer's bytes is guarded by Inode.mu; the bytes belong to the
// fetching goroutine until done is closed.
type span struct {
	off  int64
	ask  int
	buf  bufpool.Lease
	done chan struct{}

	fetched bool
	n       int // bytes there; less than ask means the file ended
	err     error
	users   int // the fetching goroutine, and reads that wait or copy
	taken   int // bytes delivered
	ahead   bool
	listed  bool
}

// end is where the span ends as far as is known.
func (s *span) end() int64 {
	if s.fetched {
		return s.off + int64(s.n)
	}
	return s.off + int64(s.ask)
}

// addSpan lists a new span with one user; mu is held.
func (i *Inode) addSpan(off int64, ask int, buf bufpool.Lease, ahead bool) *span {
	s := &span{off: off, ask: ask, buf: buf, done: make(chan struct{}), users: 1, ahead: ahead, listed: true}
	i.ownReading()
	i.spans = append(i.spans, s)
	return s
}

// findSpan is a span that has or will have the byte at off; next is where the
// nearest one behind off begins. mu is held.
func (i *Inode) findSpan(off int64) (found *span, next int64) {
	next = maxOffset
	for _, s := range i.spans {
		switch {
		case s.fetched && s.err != nil:
		case s.off <= off && off < s.end():
			return s, next
		case s.off > off:
			next = min(next, s.off)
		}
	}
	return nil, next
}

// leaveSpan ends the use of s, of which n bytes were delivered; mu is held.
func (i *Inode) leaveSpan(s *span, n int) {
	s.users--
	s.taken += n
	if s.users > 0 {
		return
	}
	if s.listed && s.ahead && s.err == nil && s.taken < s.n {
		return // not all of it was delivered
	}
	if s.listed {
		i.unlistSpan(s)
	}
	s.buf.Release()
}

func (i *Inode) unlistSpan(s *span) {
	s.listed = false
	last := len(i.spans) - 1
	for k := range i.spans {
		if i.spans[k] == s {
			i.spans[k] = i.spans[last]
			i.spans[last] = nil
			i.spans = i.spans[:last]
			if last == 0 {
				i.reading = &notReading
			}
			return
		}
	}
}

// detachSpans makes sure that no later read returns bytes of [off, end) that were
// read, or requested, before now; mu is held.
func (i *Inode) detachSpans(off, end int64) {
	for k := 0; k < len(i.spans); {
		s := i.spans[k]
		if s.off >= end || s.off+int64(s.ask) <= off {
			k++
			continue
		}
		i.unlistSpan(s)
		if s.users == 0 {
			s.buf.Release()
		}
	}
}

// fetch reads s from the server, as the fetching goroutine.
func (i *Inode) fetch(ctx context.Context, cr nfsclient.Cred, o *opening, s *span) error {
	n, err := i.fill(ctx, cr, o, uint64(s.off), s.buf.Seg().Slice(0, s.ask))
	i.mu.Lock()
	s.n, s.err, s.fetched = n, err, true
	i.mu.Unlock()
	close(s.done)
	return err
}

// fill reads from off into to until it is full or the file ends.
func (i *Inode) fill(ctx context.Context, cr nfsclient.Cred, o *opening, off uint64, to mem.Seg) (done int, err error) {
	for done < to.Len {
		st := i.c.stamp()
		r, err := i.c.cl.Read(ctx, cr, i.h, o.server(), off+uint64(done), mem.Vec{to.Slice(done, to.Len-done)})
		if err != nil {
			i.failed(err)
			return done, err
		}
		if r.N < 0 || r.N > to.Len-done || r.N == 0 && !r.EOF {
			return done, fmt.Errorf("%w: READ of %d bytes gave %d", ErrServer, to.Len-done, r.N)
		}
		if r.Attr != nil {
			i.mu.Lock()
			i.note(st, r.Attr)
			i.mu.Unlock()
		}
		done += r.N
		if r.EOF {
			break
		}
	}
	return done, nil
}

// dropReadAhead drops everything that was read ahead of any file; outstanding
// READs are dropped when they return.
func (c *Cache) dropReadAhead() {
	c.mu.Lock()
	all := make([]*Inode, 0, len(c.opened))
	for i := range c.opened {
		i.refs.Add(1)
		all = append(all, i)
	}
	c.mu.Unlock()
	for _, i := range all {
		i.mu.Lock()
		i.detachSpans(0, maxOffset)
		i.mu.Unlock()
		i.unpin()
	}
}
