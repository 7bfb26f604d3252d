package cache

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/readahead"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// span and spans are those of package readahead; Inode.mu guards them.
type (
	span  = readahead.Span[bufpool.Lease]
	spans = readahead.Spans[bufpool.Lease]
)

// leaveSpan ends the use of s, of which n bytes were delivered; mu is held.
func (i *Inode) leaveSpan(s *span, n int) {
	i.spans.Leave(s, n)
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
	n, err := i.fill(ctx, cr, o, uint64(s.Off), s.Buf.Seg().Slice(0, s.Ask))
	i.mu.Lock()
	s.Fetched(n, err)
	i.mu.Unlock()
	close(s.Done)
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
