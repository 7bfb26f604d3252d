package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// start sends in the background what the write-back has to send, as far as there
// are background writers. mu is held.
func (i *Inode) start() {
	for k, how := i.wb.Next(0); k >= 0; k, how = i.wb.Next(k) {
		if how != nfsclient.FileSync && !i.c.takeWriter(i) {
			return
		}
		e := i.wb.Send(k)
		i.refs.Add(1)
		if !i.c.spawn(func() { i.runWrite(i.detached(), e, how) }) {
			i.wb.Unsend(e)
			i.c.writerDone(how)
			i.unpin()
			return // nothing is sent any more
		}
	}
}

// runWrite sends one extent in flight; Close joins it. No waiter can cancel it: a
// WRITE that was given up may reach the server after newer ones of the same bytes.
func (i *Inode) runWrite(ctx context.Context, e *writeback.Extent, how nfsclient.Stable) {
	w := i.send(ctx, e, how)
	w.Unknown = w.Err != nil && ctx.Err() != nil
	i.c.writerDone(how)
	i.mu.Lock()
	switch {
	case w.Err == nil:
		i.node.Resize(max(i.node.Size, uint64(e.End())))
	case !w.Unknown && !writeback.TryLater(w.Err):
		i.fail(w.Err)
	}
	wait, due := i.wb.Wrote(i.c.cfg.Now(), e, w)
	i.pump()
	if wait > 0 {
		i.refs.Add(1)
		if !i.c.spawn(func() { i.runLater(i.c.life, wait, due) }) {
			i.unpin() // nothing is sent any more
		}
	}
	i.mu.Unlock()
	i.c.wakeFlusherIfShort()
	i.c.wakeQueued()
	i.unpin()
}

// runLater waits until due, which is after wait, and then lets one WRITE be sent;
// Close joins it.
func (i *Inode) runLater(ctx context.Context, wait time.Duration, due time.Time) {
	_ = pause(ctx, wait)
	i.mu.Lock()
	i.wb.Advance(due)
	i.pump()
	i.mu.Unlock()
	i.unpin()
}

// takeWriter takes one of the background writers for i, or queues i for one.
// i.mu is held.
func (c *Cache) takeWriter(i *Inode) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writers < maxWriters {
		c.writers++
		return true
	}
	if !i.queued {
		i.queued = true
		i.refs.Add(1)
		c.queue = append(c.queue, i)
	}
	return false
}

// writerDone gives it back: a FILE_SYNC WRITE has none. wakeQueued must follow.
func (c *Cache) writerDone(how nfsclient.Stable) {
	if how == nfsclient.FileSync {
		return
	}
	c.mu.Lock()
	c.writers--
	c.mu.Unlock()
}

// wakeQueued starts the WRITEs of queued inodes while there are background writers.
// Not each inode still wants one. No lock is held.
func (c *Cache) wakeQueued() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.writers >= maxWriters {
			c.mu.Unlock()
			return
		}
		i := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		i.mu.Lock()
		i.queued = false
		i.start()
		i.mu.Unlock()
		i.unpin()
	}
}

// tryLater says that the server, or a client that passes its answer on, wants the
// call later (NFS3ERR_JUKEBOX).
func tryLater(err error) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && s == nfsclient.ErrJukebox
}

// send writes e, which is in flight, in as many WRITEs as the server makes of it.
// It ends early if the server wants one later.
func (i *Inode) send(ctx context.Context, e *writeback.Extent, how nfsclient.Stable) (w writeback.Written) {
	t := writeback.NewTransfer(e.Len())
	whole := e.Vec()
	vec := whole
	for from, to := t.Rest(); from < to; from, to = t.Rest() {
		if from > 0 {
			vec = whole.Slice(nil, from, to-from)
		} else {
			vec = whole
		}
		st := i.begin()
		r, err := i.c.cl.Write(ctx, e.Cred(), i.h, e.Opening().(*opening).server(), uint64(e.Off())+uint64(from), vec, how)
		i.mu.Lock()
		i.finish(st, &r.Wcc, true)
		i.mu.Unlock()
		if err != nil {
			if !writeback.TryLater(err) {
				i.failed(err)
			}
			return writeback.Written{Err: err}
		}
		wait, ok := t.Wrote(&r)
		if !ok {
			return writeback.Written{Err: fmt.Errorf("%w: WRITE of %d bytes wrote %d", ErrServer, to-from, r.N)}
		}
		if err := pause(ctx, wait); err != nil {
			return writeback.Written{Err: err}
		}
	}
	w.How, w.Ver = t.Result()
	return w
}

// sendPatiently is send that goes on however often the server wants a WRITE later.
func (i *Inode) sendPatiently(ctx context.Context, e *writeback.Extent, how nfsclient.Stable) writeback.Written {
	var b writeback.Backoff
	for {
		w := i.send(ctx, e, how)
		if !tryLater(w.Err) {
			return w
		}
		if err := pause(ctx, b.Next()); err != nil {
			return writeback.Written{Err: err}
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return nfsclient.Pause(ctx, d)
}
