package cache

import (
	"context"
	"fmt"
	"time"
)

// Times is for how long attributes are fresh: acregmin to acdirmax and noac of nfs(5), as
// in Config.
type Times struct {
	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration
	NoAC                                   bool
}

func (t *Times) check() error {
	if t.AcRegMin < 0 || t.AcDirMin < 0 || t.AcRegMax < t.AcRegMin || t.AcDirMax < t.AcDirMin {
		return fmt.Errorf("cache: attribute timeouts: maximum below minimum")
	}
	return nil
}

// policy is what holds of a Config now.
type policy struct {
	Times
	readAhead int
}

// policyOf is the policy by times, and by the configured read-ahead.
func policyOf(t Times, readAhead int) *policy {
	if t.NoAC {
		return &policy{Times: Times{NoAC: true}}
	}
	return &policy{t, readAhead}
}

// SetTimes changes for how long attributes are fresh. What is known of files is revalidated
// before its next use, by the kernel too, so that nothing is believed for longer than the
// new times say. When ctx ends the rest of that is left to the background.
func (c *Cache) SetTimes(ctx context.Context, t Times) error {
	if err := t.check(); err != nil {
		return err
	}
	now := policyOf(t, c.cfg.ReadAhead)
	if *c.policy.Swap(now) == *now {
		return nil
	}
	select {
	case c.repoll <- struct{}{}:
	default:
	}
	for _, i := range c.inodes() {
		i.mu.Lock()
		i.node.Invalidate()
		i.doubt()
		shown := i.shownNames()
		i.mu.Unlock()
		c.clear(ctx, i)
		for _, name := range shown {
			c.cfg.Kernel.InvalidateEntry(i, name)
		}
		i.unpin()
	}
	return nil
}

// shownNames are the names that the kernel may have been given; mu is held.
func (i *Inode) shownNames() (shown []string) {
	if i.names == nil || i.c.cfg.Kernel == nil {
		return nil
	}
	for _, d := range i.names.buckets {
		for ; d != nil; d = d.next {
			if d.shown {
				shown = append(shown, d.name)
			}
		}
	}
	return shown
}

// inodes are all that are known, each pinned for the caller.
func (c *Cache) inodes() []*Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Inode, 0, c.numbers.n)
	for _, i := range c.numbers.buckets {
		for ; i != nil; i = i.nextNumber {
			i.refs.Add(1)
			all = append(all, i)
		}
	}
	return all
}
