package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// writers counts what keeps a mount from becoming read-only: changes under way, and files
// that are open for writing.
type writers struct {
	n      atomic.Int64
	barred atomic.Bool   // the mount is read-only, or about to be
	none   chan struct{} // capacity 1: n may have become 0 while barred
}

// begin announces a change; end must follow if it succeeds.
func (w *writers) begin(op string) error {
	w.n.Add(1)
	if !w.barred.Load() {
		return nil
	}
	w.end()
	return localError(op, nfsclient.ErrReadOnly)
}

func (w *writers) end() {
	if w.n.Add(-1) == 0 && w.barred.Load() {
		select {
		case w.none <- struct{}{}:
		default:
		}
	}
}

// writersGrace bounds waiting for changes under way and for the kernel's word that files have
// been closed, which it gives only after close(2) has returned.
const writersGrace = 2 * time.Second

// ReadOnly reports whether nothing can be changed.
func (c *Cache) ReadOnly() bool { return c.altering.barred.Load() }

// SetReadWrite ends SetReadOnly, or Config.ReadOnly.
func (c *Cache) SetReadWrite() { c.altering.barred.Store(false) }

// SetReadOnly makes everything written safe on the server and refuses changes from then on,
// with EROFS. It fails with EBUSY, and changes nothing, while files are open for writing. It
// must not run twice at once.
func (c *Cache) SetReadOnly(ctx context.Context) (err error) {
	if c.altering.barred.Swap(true) {
		return nil
	}
	defer func() {
		if err != nil {
			c.SetReadWrite()
		}
	}()
	grace := time.NewTimer(writersGrace)
	defer grace.Stop()
	for c.altering.n.Load() > 0 {
		select {
		case <-c.altering.none:
		case <-grace.C:
			return fmt.Errorf("%d files are open for writing, or being changed: %w", c.altering.n.Load(), syscall.EBUSY)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.Sync(ctx)
}
