package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// start sends dirty extents in the background: those that are ready and do not
// overlap one in flight, as far as there are writers. mu is held.
func (i *Inode) start() {
	w := &i.wb
	for k := 0; k < len(w.dirty); {
		e := w.dirty[k]
		if !e.ready && e.seq > w.sendSeq || w.flight.overlaps(e.off, e.end()) {
			k++
			continue
		}
		if !i.c.takeWriter(i) {
			return
		}
		w.dirty.remove(e)
		w.flight.insert(e)
		i.refs.Add(1)
		if !i.c.spawn(func() { i.runWrite(i.c.life, e) }) {
			w.flight.remove(e)
			w.dirty.insert(e)
			if next := i.c.releaseWriter(); next != nil {
				next.unpin() // nothing is sent any more
			}
			i.unpin()
			return
		}
	}
}

// runWrite sends one extent in flight; Close joins it.
func (i *Inode) runWrite(ctx context.Context, e *extent) {
	how, ver, err := i.send(ctx, e, nfsclient.Unstable)
	next := i.c.releaseWriter()
	i.mu.Lock()
	i.sent(e, how, ver, ctx.Err() != nil && err != nil, err)
	i.start()
	i.unlock()
	i.c.relieve()
	i.unpin()
	if next != nil {
		next.mu.Lock()
		next.wb.stalled = false
		next.start()
		next.unlock()
		next.unpin()
	}
}

// takeWriter takes one of the background writers for i, or notes that i wants
// one. i.mu is held.
func (c *Cache) takeWriter(i *Inode) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writers < maxWriters {
		c.writers++
		return true
	}
	if !i.wb.stalled {
		i.wb.stalled = true
		i.refs.Add(1)
		c.stalled = append(c.stalled, i)
	}
	return false
}

// releaseWriter gives it back and returns who waits for one, pinned.
func (c *Cache) releaseWriter() *Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers--
	if len(c.stalled) == 0 {
		return nil
	}
	i := c.stalled[0]
	c.stalled = c.stalled[1:]
	return i
}

// Servers that are short of something may ask to try later (NFS3ERR_JUKEBOX);
// so may a client that gives that answer through.
const (
	retryFirst = 100 * time.Millisecond
	retryLast  = 5 * time.Second
)

// send writes e, which is in flight, in as many WRITEs as the server makes of
// it. how is how durable all of it is now; ver goes with Unstable.
func (i *Inode) send(ctx context.Context, e *extent, how nfsclient.Stable) (nfsclient.Stable, nfsclient.Verifier, error) {
	var ver nfsclient.Verifier
	got := nfsclient.FileSync
	retry := retryFirst
	whole := mem.Vec{e.seg()}
	vec := whole
	for done := 0; done < e.n; {
		if done > 0 {
			vec = whole.Slice(nil, done, e.n-done)
		}
		st := i.begin()
		r, err := i.c.cl.Write(ctx, e.cr, i.h, uint64(e.off)+uint64(done), vec, how)
		i.mu.Lock()
		i.finish(st, &r.Wcc, true)
		i.unlock()
		if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrJukebox {
			if err := pause(ctx, retry); err != nil {
				return 0, ver, err
			}
			retry = min(2*retry, retryLast)
			continue
		}
		if err != nil {
			i.failed(err)
			return 0, ver, err
		}
		if r.N <= 0 || r.N > e.n-done {
			return 0, ver, fmt.Errorf("%w: WRITE of %d bytes wrote %d", ErrServer, e.n-done, r.N)
		}
		if r.Committed == nfsclient.Unstable {
			if got == nfsclient.Unstable && ver != r.Verifier {
				// The server restarted between two parts: all over again.
				done, got = 0, nfsclient.FileSync
				vec = whole
				continue
			}
			got, ver = nfsclient.Unstable, r.Verifier
		}
		done += r.N
	}
	return got, ver, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendAlone sends the one dirty extent of a file, of which nothing else is
// pending, as a single FILE_SYNC write: a small file costs no COMMIT. The
// caller's goroutine does it. mu is held, and is released meanwhile.
func (i *Inode) sendAlone(ctx context.Context) error {
	w := &i.wb
	e := w.dirty[0]
	w.dirty.remove(e)
	w.flight.insert(e)
	i.mu.Unlock()
	how, ver, err := i.send(ctx, e, nfsclient.FileSync)
	i.mu.Lock()
	again := err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled))
	i.sent(e, how, ver, again, err)
	i.start()
	if again {
		return err
	}
	return nil
}

// alone says whether sendAlone may be used; mu is held.
func (w *writeback) alone() bool {
	return len(w.dirty) == 1 && len(w.flight) == 0 && len(w.unstable) == 0
}
