package cache

import (
	"context"
	"sync"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// change is something that changes a file on the server, and that is done to its end even if
// the caller's context ends first: like a WRITE, a call that was given up could undo later
// ones. It serves one caller after the other, unless one has left.
type change struct {
	i *Inode
	// call makes it. It is nil for the direct write of e; w is what became of that.
	call func(context.Context) error
	e    *writeback.Extent
	w    writeback.Written

	done chan error
	gone <-chan struct{}
	run  func() // runChange: a go statement with arguments would allocate
}

var changes = sync.Pool{New: func() any {
	x := &change{done: make(chan error)}
	x.run = x.runChange
	return x
}}

// carryOut runs call to its end even if ctx ends first. The kernel then sees a failure, so it
// is made to drop what it has of the file once that is done. ErrClosed means that call was
// not run.
func (i *Inode) carryOut(ctx context.Context, call func(context.Context) error) error {
	x := changes.Get().(*change)
	x.i, x.call = i, call
	_, err := x.carryOut(ctx)
	return err
}

// carryOutWrite is carryOut for the direct write of e, which is in flight.
func (i *Inode) carryOutWrite(ctx context.Context, e *writeback.Extent) (writeback.Written, error) {
	x := changes.Get().(*change)
	x.i, x.e = i, e
	w, err := x.carryOut(ctx)
	if err == ErrClosed {
		i.wroteDirect(e, writeback.Written{Err: err})
	}
	return w, err
}

func (x *change) carryOut(ctx context.Context) (w writeback.Written, err error) {
	i := x.i
	x.gone = ctx.Done()
	i.refs.Add(1)
	if !i.c.spawnJoined(x.run) {
		i.unpin()
		return w, ErrClosed
	}
	select {
	case err = <-x.done:
		w = x.w
		*x = change{done: x.done, run: x.run}
		changes.Put(x)
		return w, err
	case <-x.gone:
		return w, ctx.Err()
	}
}

// runChange is what carryOut runs; Close joins it.
func (x *change) runChange() {
	i, gone := x.i, x.gone
	defer i.c.wg.Done()
	var err error
	if x.call != nil {
		err = x.call(i.c.life)
	} else {
		x.w = i.sendPatiently(i.c.life, x.e, nfsclient.FileSync)
		i.wroteDirect(x.e, x.w)
		err = x.w.Err
	}
	select {
	case x.done <- err: // x is the caller's from here on
	case <-gone:
		i.mu.Lock()
		i.doubt()
		i.mu.Unlock()
	}
	i.unpin()
}
