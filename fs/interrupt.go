package fs

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// errAborted is EIO, as on a kernel mount that is ended by force: programs try
// again what fails with EINTR.
var errAborted = fmt.Errorf("the mount is being ended: %w: %w", context.Canceled, syscall.EIO)

// opContext is the context of one request. FUSE tells us of any signal that
// the caller gets, down to the preemption signals of a Go program; as with the
// kernel's NFS client only a fatal one may end an operation, for an
// interrupted write or rename would have unknown effect. So Done is closed
// when the caller is being killed or the mount torn down.
//
// Most requests are answered without waiting: the goroutine that watches is
// started by the first call of Done.
type opContext struct {
	context.Context // the mount's
	cancel          <-chan struct{}
	pid             uint32

	mu       sync.Mutex
	done     chan struct{} // closed when cancelled; nil until asked for
	finished chan struct{} // closed by end
	err      error
}

func (f *FS) begin(cancel <-chan struct{}, h *fuse.InHeader) *opContext {
	return &opContext{Context: f.ctx, cancel: cancel, pid: h.Pid}
}

// end must be called when the request has been answered.
func (c *opContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished != nil {
		close(c.finished)
	}
}

func (c *opContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done, c.finished = make(chan struct{}), make(chan struct{})
		go c.runInterrupt(c.done, c.finished)
	}
	return c.done
}

func (c *opContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.Context.Err() != nil {
		return errAborted
	}
	return c.err
}

// killPoll is how often a request that was interrupted without being killed
// looks whether its process is being killed by now: the kernel sends one
// interrupt a request and no second one for a later, fatal signal.
const killPoll = time.Second

func (c *opContext) runInterrupt(done, finished chan struct{}) {
	interrupted := c.cancel
	var again <-chan time.Time
	for {
		select {
		case <-finished:
			return
		case <-c.Context.Done():
			c.finish(errAborted, done)
			return
		case <-interrupted:
			interrupted = nil
			tick := time.NewTicker(killPoll)
			defer tick.Stop()
			again = tick.C
		case <-again:
		}
		if interrupted == nil && beingKilled(c.pid) {
			c.finish(context.Canceled, done)
			return
		}
	}
}

func (c *opContext) finish(err error, done chan struct{}) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(done)
}

// beingKilled tells whether SIGKILL is pending for a thread. The kernel makes
// every fatal signal a SIGKILL pending for each thread of the process.
func beingKilled(pid uint32) bool {
	const bit = 1 << (syscall.SIGKILL - 1)
	for _, field := range []string{"SigPnd:", "ShdPnd:"} {
		v := statusField(pid, field)
		if v == nil {
			return pid != 0 // gone
		}
		mask, err := strconv.ParseUint(string(v), 16, 64)
		if err == nil && mask&bit != 0 {
			return true
		}
	}
	return false
}
