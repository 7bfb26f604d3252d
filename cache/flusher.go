package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
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
		for _, i := range c.dirtyInodes() {
			i.background(time.Now().Add(-c.cfg.WriteDelay), urgent, urgent && c.pool.Stats().Waiting > 0)
			i.unpin()
		}
	}
}

// background sends what was written before then, and commits what can be:
// when urgent, if nothing is left to send or a quarter of the memory waits for
// it, and in any case when the pool is out of buffers.
func (i *Inode) background(then time.Time, urgent, starved bool) {
	i.mu.Lock()
	defer i.unlock()
	w := &i.wb
	for _, e := range w.dirty {
		if urgent || e.born.Before(then) {
			e.ready = true
		}
	}
	i.start()
	if len(w.unstable) == 0 || w.commits || w.held {
		return
	}
	old := !w.unsent() && w.unstable[0].born.Before(then)
	if !old && !starved && !(urgent && (!w.unsent() || w.unstable.held() > i.c.cfg.MaxDirty/4)) {
		return
	}
	i.refs.Add(1)
	if !i.c.spawn(func() { i.runCommit(i.c.life) }) {
		i.unpin()
	}
}

// held is the bytes in l.
func (l layer) held() (n int) {
	for _, e := range l {
		n += e.n
	}
	return n
}
