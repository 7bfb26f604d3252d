package fs

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/transport"
)

// errAborted is EIO, as on a kernel mount after umount -f: programs retry what
// fails with EINTR.
var errAborted = fmt.Errorf("the mount is being ended: %w: %w", context.Canceled, syscall.EIO)

// opContext is the context of one request. The kernel sends an interrupt for any
// signal that the caller gets, down to the preemption signals of a Go program. As
// with the kernel's NFS client, only a fatal signal may end an operation, because an
// interrupted write or rename would have unknown effect. Done is therefore closed
// when the caller is being killed or the mount is torn down.
//
// Only requests that may block are watched: the first call of Done or AfterFunc
// registers one, end unregisters it. An opContext serves one request after the other,
// unless it was cancelled: nobody may refer to it, or to its Done channel, after end.
type opContext struct {
	context.Context // the mount's
	w               *watch
	cancel          <-chan struct{}
	pid             uint32
	asked           uint64 // cache.Mark when the request arrived
	write           bool   // a WRITE, with its buffer; set before it may block
	opcode          uint32
	node            uint64
	f               *FS

	// Guarded by watch.mu.

	turn  uint64        // which request it is, among those that it has served
	done  chan struct{} // closed when cancelled; nil until Done is called
	err   error         // why it was cancelled
	after map[*afterFunc]struct{}
	at    int // index in watch.ops, when watched
	// watched is set once, ended by end.
	watched, ended bool
	// interrupted: cancel is closed. Whether the signal was fatal is checked at
	// checkAt.
	interrupted bool
	unseen      bool // the thread cannot be inspected, and checkAt is the deadline
	checkAt     time.Time
	seen        time.Time // when the watch first saw it; zero before
}

type afterFunc struct{ f func() }

// opContexts has those that serve no request. Their Done channels, if any, are open.
var opContexts = sync.Pool{New: func() any { return new(opContext) }}

func (f *FS) begin(cancel <-chan struct{}, h *fuse.InHeader) *opContext {
	c := opContexts.Get().(*opContext)
	c.Context, c.w, c.cancel, c.pid, c.asked, c.write = f.ctx, &f.watch, cancel, h.Pid, f.cache.Mark(), false
	c.watched, c.ended, c.interrupted, c.unseen = false, false, false, false
	c.checkAt, c.seen = time.Time{}, time.Time{}
	c.opcode, c.node, c.f = h.Opcode, h.NodeId, f
	f.requests.add(h.Opcode)
	f.use.add(h.Pid, h.NodeId, 0, 0, 1)
	return c
}

// Value names the file to those who log calls.
func (c *opContext) Value(key any) any {
	if key == (transport.Subject{}) {
		return c.subject
	}
	return c.Context.Value(key)
}

// end must be called when the request has been answered.
func (c *opContext) end() {
	c.w.mu.Lock()
	c.ended = true
	c.turn++
	c.after = nil
	cancelled := c.err != nil
	if c.watched && !cancelled {
		c.w.remove(c)
	}
	c.w.mu.Unlock()
	if !cancelled {
		opContexts.Put(c)
	}
}

func (c *opContext) Done() <-chan struct{} {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	c.w.add(c)
	return c.done
}

func (c *opContext) Err() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.err == nil && c.Context.Err() != nil {
		return errAborted
	}
	return c.err
}

// AfterFunc lets package context propagate cancellation without a goroutine.
func (c *opContext) AfterFunc(f func()) (stop func() bool) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	a := &afterFunc{f}
	if c.after == nil {
		c.after = make(map[*afterFunc]struct{})
	}
	c.after[a] = struct{}{}
	c.w.add(c)
	if c.err != nil {
		c.runAfter()
	}
	return func() bool {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		_, there := c.after[a]
		delete(c.after, a)
		return there
	}
}

// runAfter starts the functions given to AfterFunc; watch.mu is held. As with any
// context, the caller of AfterFunc joins them.
func (c *opContext) runAfter() {
	for a := range c.after {
		go a.f()
	}
	c.after = nil
}

// finish cancels c; watch.mu is held.
func (c *opContext) finish(err error) {
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	c.runAfter()
}

// checkThread looks whether SIGKILL is pending for a thread. The kernel turns every
// fatal signal into a SIGKILL pending for each thread of the process.
func checkThread(tid uint32) verdict {
	const bit = 1 << (syscall.SIGKILL - 1)
	var p procStatus
	if tid == 0 || p.read(tid) != nil {
		return unseen
	}
	defer p.free()
	for _, field := range []string{"SigPnd:", "ShdPnd:"} {
		mask, err := strconv.ParseUint(string(p.field(field)), 16, 64)
		if err == nil && mask&bit != 0 {
			return dying
		}
	}
	return running
}
