package nfs4

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// pathCount is how many SYMLINKs can be under way at once; more
// wait.
const pathCount = 16

// pathBuffers lends registered memory for the targets of symbolic links.
type pathBuffers struct {
	arena *mem.Arena
	free  chan mem.Seg // those not lent
	done  chan struct{}
}

func newPathBuffers(caller transport.Caller) (*pathBuffers, error) {
	arena, err := mem.NewArena(pathCount * maxPath)
	if err != nil {
		return nil, err
	}
	if err := caller.Register(arena); err != nil {
		if cerr := arena.Close(); cerr != nil {
			return nil, fmt.Errorf("%w, then %v", err, cerr)
		}
		return nil, err
	}
	p := &pathBuffers{arena: arena, free: make(chan mem.Seg, pathCount), done: make(chan struct{})}
	for i := range pathCount {
		p.free <- arena.Seg(i*maxPath, maxPath)
	}
	return p, nil
}

// get lends a buffer of maxPath bytes; put takes it back.
func (p *pathBuffers) get(ctx context.Context) (mem.Seg, error) {
	select {
	case s := <-p.free:
		return s, nil
	case <-p.done:
		return mem.Seg{}, transport.ErrClosed
	case <-ctx.Done():
		return mem.Seg{}, ctx.Err()
	}
}

func (p *pathBuffers) put(s mem.Seg) { p.free <- s }

// close waits until every buffer is back, and unmaps them. The Caller must have been
// closed: it does not use the arena any more, and no call keeps a buffer for long.
func (p *pathBuffers) close() error {
	close(p.done)
	for range pathCount {
		<-p.free
	}
	return p.arena.Close()
}
