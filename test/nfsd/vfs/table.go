package vfs

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const shards = 32

// table is the nodes by handle, least recently used last.
type table struct {
	seed  maphash.Seed
	max   int // of one shard
	epoch atomic.Uint32
	shard [shards]shard
}

type shard struct {
	mu   sync.Mutex
	m    map[string]*Node
	ring Node // head of the list of nodes
	_    [64]byte
}

func (tb *table) init(limit int) {
	tb.seed = maphash.MakeSeed()
	tb.max = max(limit/shards, 2)
	for i := range tb.shard {
		s := &tb.shard[i]
		s.m = map[string]*Node{}
		s.ring.prev, s.ring.next = &s.ring, &s.ring
	}
}

func (tb *table) of(h string) *shard {
	return &tb.shard[maphash.String(tb.seed, h)%shards]
}

func (s *shard) unlink(n *Node) {
	n.prev.next, n.next.prev = n.next, n.prev
}

func (s *shard) front(n *Node) {
	n.prev, n.next = &s.ring, s.ring.next
	n.prev.next, n.next.prev = n, n
}

// get refers to the node of a handle, if there is one.
func (tb *table) get(h string) *Node {
	s := tb.of(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.m[h]
	if n == nil {
		return nil
	}
	n.refs++
	if s.ring.next != n {
		s.unlink(n)
		s.front(n)
	}
	return n
}

// add enters n, to which the caller refers, or gives up n for the node that is
// there already, to which the caller refers then.
func (tb *table) add(n *Node) *Node {
	s := tb.of(n.handle)
	s.mu.Lock()
	if old := s.m[n.handle]; old != nil {
		old.refs++
		s.mu.Unlock()
		n.close()
		return old
	}
	s.m[n.handle] = n
	s.front(n)
	var out []*Node
	for v := s.ring.prev; len(s.m) > tb.max && v != &s.ring; {
		before := v.prev
		if v.refs == 0 {
			s.remove(v)
			out = append(out, v)
		}
		v = before
	}
	s.mu.Unlock()
	for _, v := range out {
		v.close()
	}
	return n
}

// remove takes n out of the table. s.mu is held.
func (s *shard) remove(n *Node) {
	delete(s.m, n.handle)
	s.unlink(n)
	n.dead = true
}

// put gives a reference back.
func (tb *table) put(n *Node) {
	s := tb.of(n.handle)
	s.mu.Lock()
	n.refs--
	if n.refs < 0 {
		panic("vfs: node given back twice")
	}
	last := n.refs == 0 && n.dead
	s.mu.Unlock()
	if last {
		n.close()
	}
}

// drop takes out of the table a node to which the caller refers.
func (tb *table) drop(n *Node) {
	s := tb.of(n.handle)
	s.mu.Lock()
	if !n.dead {
		s.remove(n)
	}
	s.mu.Unlock()
}

// all refers to every node.
func (tb *table) all() []*Node {
	var all []*Node
	for i := range tb.shard {
		s := &tb.shard[i]
		s.mu.Lock()
		for _, n := range s.m {
			n.refs++
			all = append(all, n)
		}
		s.mu.Unlock()
	}
	return all
}

// clear closes every node. None may have references.
func (tb *table) clear() {
	for i := range tb.shard {
		s := &tb.shard[i]
		for _, n := range s.m {
			if n.refs != 0 {
				panic("vfs: node in use at Close")
			}
			n.close()
		}
		clear(s.m)
	}
}

// Put gives back a reference to n.
func (t *Tree) Put(n *Node) { t.nodes.put(n) }

// idle is after how many epochs descriptors for I/O are closed.
const (
	epochTime = time.Second
	idle      = 3
)

// runJanitor closes descriptors for I/O that have gone unused: one open for
// writing keeps a file from being executed, and all pin what was removed.
func (t *Tree) runJanitor(ctx context.Context) {
	defer t.janitors.Done()
	tick := time.NewTicker(epochTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.sweep(t.nodes.epoch.Add(1))
		}
	}
}

func (t *Tree) sweep(now uint32) {
	for i := range t.nodes.shard {
		s := &t.nodes.shard[i]
		s.mu.Lock()
		for n := s.ring.next; n != &s.ring; n = n.next {
			if n.refs == 0 && now-n.used.Load() > idle {
				n.closeIO()
			}
		}
		s.mu.Unlock()
	}
}
