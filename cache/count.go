package cache

import (
	"context"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
)

// counters are what Counts reports.
type counters struct {
	attributeHits, attributeMisses, nameHits, nameMisses, dataHits, dataMisses atomic.Uint64
}

// Counts says how often the cache has answered without the server: hits, and how often it had to ask: misses. Data is
// counted by pieces that stand in one buffer; what is being read ahead is a hit.
type Counts struct {
	AttributeHits   uint64 `json:"attribute_hits"`
	AttributeMisses uint64 `json:"attribute_misses"`
	NameHits        uint64 `json:"name_hits"`
	NameMisses      uint64 `json:"name_misses"`
	DataHits        uint64 `json:"data_hits"`
	DataMisses      uint64 `json:"data_misses"`
}

// Counts is what the cache has counted.
func (c *Cache) Counts() Counts {
	n := &c.counts
	return Counts{
		n.attributeHits.Load(), n.attributeMisses.Load(), n.nameHits.Load(), n.nameMisses.Load(), n.dataHits.Load(), n.dataMisses.Load(),
	}
}

// DirtyBytes is the memory of data that is not stable on the server yet.
func (c *Cache) DirtyBytes() int64 { return c.buffered.Load() }

// OpenFiles is how many files are open.
func (c *Cache) OpenFiles() int64 { return c.opens.Load() }

// Paths are quoted paths of inodes, as far as they are known. It walks through all names: for people who ask only.
func (c *Cache) Paths(of ...*Inode) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths(of...)
}

// detached is the context of calls that no program waits for.
func (i *Inode) detached() context.Context {
	if i.c.cfg.Subjects {
		return subject{i.c.life, i}
	}
	return i.c.life
}

// subject names an inode to those who log calls.
type subject struct {
	context.Context
	i *Inode
}

func (s subject) Value(key any) any {
	if key == (transport.Subject{}) {
		return func() string { return s.i.c.path(s.i) }
	}
	return s.Context.Value(key)
}
