package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// start sends dirty extents in the background: those that are ready and do not
// overlap one in flight, as far as there are writers. What someone waits for is
// written FILE_SYNC if it is all there is: a small file costs no COMMIT, and does
// not queue behind the writers of large ones. mu is held.
func (i *Inode) start() {
	w := &i.wb
	for k := 0; k < len(w.dirty) && !w.quiet(); {
		e := w.dirty[k]
		if !e.ready && e.seq > w.sendSeq || w.flight.overlaps(e.off, e.end()) {
			k++
			continue
		}
		how := nfsclient.Unstable
		if w.alone() && e.seq <= w.sendSeq {
			how = nfsclient.FileSync
		} else if !i.c.takeWriter(i) {
			return
		}
		w.dirty.remove(e)
		w.flight.insert(e)
		i.refs.Add(1)
		if !i.c.spawn(func() { i.runWrite(i.c.life, e, how) }) {
			w.flight.remove(e)
			w.dirty.insert(e)
			i.c.writerDone(how)
			i.unpin()
			return // nothing is sent any more
		}
	}
}

// runWrite sends one extent in flight; Close joins it. Nobody who waits for it can
// end it: a WRITE given up on may reach the server after newer ones of the same
// bytes.
func (i *Inode) runWrite(ctx context.Context, e *extent, how nfsclient.Stable) {
	done, ver, err := i.send(ctx, e, how)
	i.c.writerDone(how)
	i.mu.Lock()
	if tryLater(err) {
		i.sent(e, 0, ver, true, nil)
		i.later()
	} else {
		i.sent(e, done, ver, ctx.Err() != nil && err != nil, err)
		i.wb.slow = nil
		i.start()
	}
	i.unlock()
	i.c.relieve()
	i.c.wakeStalled()
	i.unpin()
}

// takeWriter takes one of the background writers for i, unless it has its share
// of them, or notes that i wants one. i.mu is held.
func (c *Cache) takeWriter(i *Inode) bool {
	if len(i.wb.flight) >= maxShare {
		return false // the next answer has more sent
	}
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

// writerDone gives it back, if one was taken for what is written so. wakeStalled
// must follow.
func (c *Cache) writerDone(how nfsclient.Stable) {
	if how == nfsclient.FileSync {
		return
	}
	c.mu.Lock()
	c.writers--
	c.mu.Unlock()
}

// wakeStalled has those send who wait for writers, while there are any. Not each
// of them still wants one. No lock is held.
func (c *Cache) wakeStalled() {
	for {
		c.mu.Lock()
		if len(c.stalled) == 0 || c.writers >= maxWriters {
			c.mu.Unlock()
			return
		}
		i := c.stalled[0]
		c.stalled = c.stalled[1:]
		c.mu.Unlock()
		i.mu.Lock()
		i.wb.stalled = false
		i.start()
		i.unlock()
		i.unpin()
	}
}

// Servers that are short of something may ask to try later (NFS3ERR_JUKEBOX);
// so may a client that gives that answer through.
const (
	retryFirst = 100 * time.Millisecond
	retryLast  = 5 * time.Second
)

// send writes e, which is in flight, in as many WRITEs as the server makes of
// it, unless it is to come later (see tryLater). how is how durable all of it is now; ver goes with Unstable.
func (i *Inode) send(ctx context.Context, e *extent, how nfsclient.Stable) (nfsclient.Stable, nfsclient.Verifier, error) {
	var ver nfsclient.Verifier
	got := nfsclient.FileSync
	retry, again := retryFirst, false
	whole := mem.Vec{e.seg()}
	vec := whole
	for done := 0; done < e.n; {
		if done > 0 {
			vec = whole.Slice(nil, done, e.n-done)
		}
		st := i.begin()
		r, err := i.c.cl.Write(ctx, e.cr, i.h, e.st.open.server(), uint64(e.off)+uint64(done), vec, how)
		i.mu.Lock()
		i.finish(st, &r.Wcc, true)
		i.unlock()
		if err != nil && tryLater(err) {
			return 0, ver, err
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
				// If it does so all the time, not at full speed.
				if again {
					if err := pause(ctx, retry); err != nil {
						return 0, ver, err
					}
					retry = min(2*retry, retryLast)
				}
				done, got, again = 0, nfsclient.FileSync, true
				vec = whole
				continue
			}
			got, ver = nfsclient.Unstable, r.Verifier
		}
		done += r.N
	}
	return got, ver, nil
}

// sendPatiently is send, however often the server wants it later.
func (i *Inode) sendPatiently(ctx context.Context, e *extent, how nfsclient.Stable) (nfsclient.Stable, nfsclient.Verifier, error) {
	for retry := retryFirst; ; retry = min(2*retry, retryLast) {
		got, ver, err := i.send(ctx, e, how)
		if !tryLater(err) {
			return got, ver, err
		}
		if err := pause(ctx, retry); err != nil {
			return 0, ver, err
		}
	}
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

// alone says whether nothing but one dirty extent is pending; Inode.mu is held.
func (w *writeback) alone() bool {
	return len(w.dirty) == 1 && len(w.flight) == 0 && len(w.unstable) == 0
}

// carryOut runs f, which changes the file on the server, to its end even if ctx
// ends first: as with a WRITE, what was given up on could undo what comes after
// it. The kernel, which is told of a failure then, drops what it has once f is
// done. ErrClosed means that f was not run.
func (i *Inode) carryOut(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error)
	gone := ctx.Done()
	i.refs.Add(1)
	if !i.c.spawn(func() { i.runChange(i.c.life, f, done, gone) }) {
		i.unpin()
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-gone:
		return ctx.Err()
	}
}

// runChange is what carryOut runs; Close joins it.
func (i *Inode) runChange(ctx context.Context, f func(context.Context) error, done chan<- error, gone <-chan struct{}) {
	err := f(ctx)
	select {
	case done <- err:
	case <-gone:
		i.mu.Lock()
		i.doubt()
		i.unlock()
	}
	i.unpin()
}
