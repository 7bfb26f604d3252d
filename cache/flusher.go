package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/writeback"
)

// lease lends a buffer for written data, once that stays within MaxDirty.
// unstage must follow its release.
func (c *Cache) lease(ctx context.Context, n int) (bufpool.Lease, error) {
	if err := c.reserve(ctx, n); err != nil {
		return bufpool.Lease{}, err
	}
	buf, err := c.pool.Get(ctx, n)
	if err != nil {
		c.unstage(n)
		return buf, err
	}
	c.staged.Add(int64(buf.Len() - n))
	return buf, nil
}

// giveBack ends the loan of buf, if it is one.
func (c *Cache) giveBack(buf bufpool.Lease) {
	if buf.Valid() {
		n := buf.Len()
		buf.Release()
		c.unstage(n)
	}
}

// reserve counts n bytes as staged, waiting for room.
func (c *Cache) reserve(ctx context.Context, n int) error {
	most := int64(c.cfg.MaxDirty)
	for {
		now := c.staged.Add(int64(n))
		if now > most*3/4 {
			c.urge()
		}
		if now <= most || now == int64(n) {
			return nil
		}
		c.waiting.Add(1)
		c.mu.Lock()
		roomy := c.roomy
		c.mu.Unlock()
		// Taken back only now: whoever made room before has not closed roomy.
		if now := c.staged.Add(int64(-n)); now+int64(n) <= most || now == 0 {
			c.waiting.Add(-1)
			continue
		}
		c.urge()
		select {
		case <-roomy:
			c.waiting.Add(-1)
		case <-ctx.Done():
			c.waiting.Add(-1)
			return ctx.Err()
		}
	}
}

// unstage counts n bytes as gone. Any lock but Cache.mu may be held.
func (c *Cache) unstage(n int) {
	c.staged.Add(int64(-n))
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		close(c.roomy)
		c.roomy = make(chan struct{})
		c.mu.Unlock()
	}
}

// urge has the flusher send and commit all it can.
func (c *Cache) urge() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// relieve keeps the flusher at it while someone waits for memory: what has
// just been written may now be committed.
func (c *Cache) relieve() {
	if c.waiting.Load() > 0 || c.staged.Load() > int64(c.cfg.MaxDirty)*3/4 || c.pool.Stats().Waiting > 0 {
		c.urge()
	}
}

// underPressure is the pool's call for memory.
func (c *Cache) underPressure() {
	c.dropReadAhead()
	c.urge()
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
		case <-c.kick:
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
	if !i.c.spawn(func() { i.runCommit(i.c.life) }) {
		i.unpin()
	}
}
