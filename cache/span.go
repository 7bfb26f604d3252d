package cache

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/readahead"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// span and spans are those of package readahead; Inode.mu guards them.
type (
	span  = readahead.Span[spanBuf]
	spans = readahead.Spans[spanBuf]
)

// spanBuf is a span's buffer, and what of it a READ is to fill.
type spanBuf struct {
	bufpool.Lease
	to [1]mem.Seg
}

// spanPool has spans that are not in use.
var spanPool = sync.Pool{New: func() any { return new(span) }}

// addSpan lists [off, off+n), to be read into buf by the caller; mu is held.
func (i *Inode) addSpan(off int64, n int, buf bufpool.Lease, ahead bool) *span {
	s := spanPool.Get().(*span)
	i.ownSpans()
	i.spans.Add(s, off, n, spanBuf{Lease: buf}, ahead)
	return s
}

// leaveSpan ends the use of s, of which n bytes were delivered; mu is held.
func (i *Inode) leaveSpan(s *span, n int) {
	if i.spans.Leave(s, n) {
		spanPool.Put(s)
	}
	i.disownSpans()
}

// detachSpans makes sure that no later read returns bytes of [off, end) that were
// read, or requested, before now; mu is held.
func (i *Inode) detachSpans(off, end int64) {
	i.spans.Detach(off, end)
	i.disownSpans()
}

// fetch reads s from the server, as the fetching goroutine.
func (i *Inode) fetch(ctx context.Context, cr nfsclient.Cred, o *opening, s *span) error {
	n, err := i.fill(ctx, cr, o, s)
	i.mu.Lock()
	s.Fetched(n, err)
	i.mu.Unlock()
	return err
}

// fill reads what s asks for until all is there or the file ends.
func (i *Inode) fill(ctx context.Context, cr nfsclient.Cred, o *opening, s *span) (done int, err error) {
	for done < s.Ask {
		st := i.c.stamp()
		s.Buf.to[0] = s.Buf.Seg().Slice(done, s.Ask-done)
		r, err := i.c.cl.Read(ctx, cr, i.h, o.server(), uint64(s.Off)+uint64(done), s.Buf.to[:])
		if err != nil {
			i.failed(err)
			return done, err
		}
		if r.N < 0 || r.N > s.Ask-done || r.N == 0 && !r.EOF {
			return done, fmt.Errorf("%w: READ of %d bytes gave %d", ErrServer, s.Ask-done, r.N)
		}
		if r.Attr.Set {
			i.mu.Lock()
			i.note(st, &r.Attr.Attr)
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
