package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/writeback"
)

// lease lends a buffer for written data, once that stays within MaxDirty.
// unreserve must follow its release.
func (c *Cache) lease(ctx context.Context, n int) (bufpool.Lease, error) {
	if err := c.reserve(ctx, n); err != nil {
		return bufpool.Lease{}, err
	}
	buf, err := c.pool.Get(ctx, n)
	if err != nil {
		c.unreserve(n)
		return buf, err
	}
	c.buffered.Add(int64(buf.Len() - n))
	return buf, nil
}

// giveBack ends the loan of buf, if it is one.
func (c *Cache) giveBack(buf bufpool.Lease) {
	if buf.Valid() {
		n := buf.Len()
		buf.Release()
		c.unreserve(n)
	}
}

// reserve counts n bytes as buffered, and waits for room for them.
func (c *Cache) reserve(ctx context.Context, n int) error {
	most := int64(c.cfg.MaxDirty)
	for {
		now := c.buffered.Add(int64(n))
		if now > most*3/4 {
			c.wakeFlusher()
		}
		if now <= most || now == int64(n) {
			return nil
		}
		c.waiting.Add(1)
		c.mu.Lock()
		room := c.room
		c.mu.Unlock()
		// Not earlier: unreserve closes room only if somebody waits by then.
		if now := c.buffered.Add(int64(-n)); now+int64(n) <= most || now == 0 {
			c.waiting.Add(-1)
			continue
		}
		c.wakeFlusher()
		select {
		case <-room:
			c.waiting.Add(-1)
		case <-ctx.Done():
			c.waiting.Add(-1)
			return ctx.Err()
		}
	}
}

// unreserve counts n bytes as buffered no more. Any lock but Cache.mu may be held.
func (c *Cache) unreserve(n int) {
	c.buffered.Add(int64(-n))
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		close(c.room)
		c.room = make(chan struct{})
		c.mu.Unlock()
	}
}

// wakeFlusher makes the flusher send and commit all it can.
func (c *Cache) wakeFlusher() {
	select {
	case c.flush <- struct{}{}:
	default:
	}
}

// wakeFlusherIfShort wakes the flusher if memory is short: what was just written may
// be committed now.
func (c *Cache) wakeFlusherIfShort() {
	if c.waiting.Load() > 0 || c.buffered.Load() > int64(c.cfg.MaxDirty)*3/4 || c.pool.Stats().Waiting > 0 {
		c.wakeFlusher()
	}
}

// underPressure is called by the pool when somebody waits for a buffer.
func (c *Cache) underPressure() {
	c.dropReadAhead()
	c.wakeFlusher()
}

// runFlusher sends data that has waited long enough, and all of it when
// memory is short. It ends with ctx; Close joins it.
func (c *Cache) runFlusher(ctx context.Context) {
	tick := time.NewTicker(max(c.cfg.WriteDelay/4, time.Millisecond))
	defer tick.Stop()
	for {
		urgent := false
		select {
		case <-ctx.Done():
			return
		case <-c.flush:
			urgent = true
		case <-tick.C:
		}
		p := writeback.Calm
		if urgent {
			p = writeback.Short
			if c.pool.Stats().Waiting > 0 {
				p = writeback.Starved
			}
		}
		now := c.cfg.Now()
		for _, i := range c.dirtyInodes() {
			i.background(now, p)
			i.unpin()
		}
	}
}

// background sends and commits what Tick finds worth it.
func (i *Inode) background(now time.Time, p writeback.Pressure) {
	i.mu.Lock()
	defer i.mu.Unlock()
	commit := i.wb.Tick(now, p)
	i.pump()
	if !commit {
		return
	}
	i.refs.Add(1)
	if !i.c.spawn(func() { i.runCommit(i.detached()) }) {
		i.unpin()
	}
}
