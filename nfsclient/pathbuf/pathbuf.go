// Package pathbuf lends registered memory for the targets of symbolic links, which travel as data that
// may be placed directly. It owns one small arena for each mount; nfsclient/nfs3 and nfsclient/nfs4 use it.
package pathbuf

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	// Size is that of a buffer: PATH_MAX, the longest target of a symbolic link.
	Size = 4096
	// Count is how many calls with such a target can be under way at once; more wait.
	Count = 16
)

// Pool lends the buffers.
type Pool struct {
	arena *mem.Arena
	free  chan mem.Seg // those not lent
	done  chan struct{}
}

// New registers the buffers with the Caller that is to carry them.
func New(caller transport.Caller) (*Pool, error) {
	arena, err := mem.NewArena(Count * Size)
	if err != nil {
		return nil, err
	}
	if err := caller.Register(arena); err != nil {
		if cerr := arena.Close(); cerr != nil {
			return nil, fmt.Errorf("%w, then %v", err, cerr)
		}
		return nil, err
	}
	p := &Pool{arena: arena, free: make(chan mem.Seg, Count), done: make(chan struct{})}
	for i := range Count {
		p.free <- arena.Seg(i*Size, Size)
	}
	return p, nil
}

// Get lends a buffer of Size bytes; Put takes it back. It waits for one until ctx ends.
func (p *Pool) Get(ctx context.Context) (mem.Seg, error) {
	select {
	case s := <-p.free:
		return s, nil
	case <-p.done:
		return mem.Seg{}, transport.ErrClosed
	case <-ctx.Done():
		return mem.Seg{}, ctx.Err()
	}
}

// Put takes back what Get lent.
func (p *Pool) Put(s mem.Seg) { p.free <- s }

// Free is how many buffers are not lent.
func (p *Pool) Free() int { return len(p.free) }

// Close waits until every buffer is back, and unmaps them. The Caller must have been
// closed: it does not use the arena any more, and no call keeps a buffer for long.
func (p *Pool) Close() error {
	close(p.done)
	for range Count {
		<-p.free
	}
	return p.arena.Close()
}
