package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// maxCopy bounds what one Copy asks the server for, in bytes: it answers when all is
// copied, and meanwhile nothing can be written to the target.
const maxCopy = 64 << 20

// copyTries bounds how often a Copy is made again because the server has restarted
// between it and its COMMIT.
const copyTries = 5

// Ranges reports whether the protocol has Seek, Allocate, Deallocate and Copy.
func (c *Cache) Ranges() bool { return c.ranges != nil }

// Seek returns where the first data, or the first hole, begins at off or behind it. What
// was written before is made stable first: a server that restarted would else answer of a file without
// it. On a file system that knows of no holes the whole
// file is data.
func (f *File) Seek(ctx context.Context, off int64, hole bool) (int64, error) {
	c, i := f.c, f.i
	switch {
	case c.ranges == nil:
		return 0, nfsclient.ErrNotSupported
	case f.lockLost.Load():
		return 0, ErrLockLost
	case off < 0:
		return 0, localError("SEEK", nfsclient.ErrNXIO)
	}
	if err := i.sync(ctx); err != nil {
		return 0, err
	}
	if err := f.pending(); err != nil {
		return 0, err
	}
	at, err := c.ranges.Seek(ctx, f.cr, i.h, f.open.server(), uint64(off), hole)
	if errors.Is(err, nfsclient.ErrNotSupported) {
		a, _, err := c.GetSize(ctx, f.cr, i)
		switch size := int64(min(a.Size, uint64(maxOffset))); {
		case err != nil:
			return 0, err
		case off >= size:
			return 0, localError("SEEK", nfsclient.ErrNXIO)
		case hole:
			return size, nil
		default:
			return off, nil
		}
	}
	if err != nil {
		i.failed(err)
		return 0, err
	}
	if at > uint64(maxOffset) {
		return 0, fmt.Errorf("%w: SEEK gave offset %d", ErrServer, at)
	}
	return int64(at), nil
}

// Allocate reserves storage for n bytes from off on, and makes the file longer where it
// ends before them.
func (f *File) Allocate(ctx context.Context, off, n int64) error {
	return f.changeRange(ctx, "ALLOCATE", off, n, func(ctx context.Context) (w nfsclient.Wcc, err error) {
		w, err = f.c.ranges.Allocate(ctx, f.cr, f.i.h, f.open.server(), uint64(off), uint64(n))
		if err == nil {
			f.i.longer(off + n)
		}
		return w, err
	})
}

// Deallocate makes a hole of n bytes from off on; the size stays.
func (f *File) Deallocate(ctx context.Context, off, n int64) error {
	return f.changeRange(ctx, "DEALLOCATE", off, n, func(ctx context.Context) (nfsclient.Wcc, error) {
		return f.c.ranges.Deallocate(ctx, f.cr, f.i.h, f.open.server(), uint64(off), uint64(n))
	})
}

// mayChangeRange checks [off, off+n).
func (f *File) mayChangeRange(op string, off, n int64) error {
	switch {
	case f.c.ranges == nil:
		return nfsclient.ErrNotSupported
	case !f.mode.Write:
		return ErrBadMode
	case f.lockLost.Load():
		return ErrLockLost
	case off < 0 || n <= 0:
		return localError(op, nfsclient.ErrInval)
	case n > f.c.maxSize-off:
		return localError(op, nfsclient.ErrFBig)
	}
	return nil
}

// changeRange makes a call that changes [off, off+n).
func (f *File) changeRange(ctx context.Context, op string, off, n int64, call func(context.Context) (nfsclient.Wcc, error)) error {
	if err := f.mayChangeRange(op, off, n); err != nil {
		return err
	}
	i := f.i
	return f.alone(ctx, nil, func(ctx context.Context) error {
		st := i.begin()
		w, err := call(ctx)
		i.mu.Lock()
		i.finish(st, &w, true)
		// What was read before, or found to be behind the end, has changed; after an
		// error, perhaps.
		i.detachSpans(0, maxOffset)
		i.mu.Unlock()
		if err != nil && !errors.Is(err, nfsclient.ErrNotSupported) {
			i.failed(err)
		}
		return err
	})
}

// longer notes that the file reaches to end at least.
func (i *Inode) longer(end int64) {
	i.mu.Lock()
	i.node.Resize(max(i.node.Size, uint64(end)))
	i.mu.Unlock()
}

// alone runs call, to its end even if ctx ends first, while nothing that was written to the file
// is unstable, and nothing more is sent: a WRITE that is sent again since the server has
// lost it would undo what call does. other is an opening that call needs too, or nil.
func (f *File) alone(ctx context.Context, other *opening, call func(context.Context) error) error {
	i, o := f.i, f.open
	for {
		if err := i.sync(ctx); err != nil {
			return err
		}
		if err := i.freeze(ctx); err != nil {
			return err
		}
		i.mu.Lock()
		clean := i.wb.Empty()
		i.mu.Unlock()
		if clean {
			break
		}
		i.thaw() // written to meanwhile
	}
	o.hold() // the call may outlive the openings
	other.hold()
	err := i.carryOut(ctx, func(ctx context.Context) error {
		defer o.release()
		defer other.release()
		defer i.thaw()
		return call(ctx)
	})
	if err == ErrClosed {
		o.release()
		other.release()
		i.thaw()
	}
	return err
}

// Copy copies up to n bytes from one file to another at the server, and says how many. They
// are stable when it returns. Fewer than asked for are no error, and none are the end of the
// source.
func (f *File) Copy(ctx context.Context, off int64, to *File, toOff, n int64) (int, error) {
	switch {
	case !f.mode.Read:
		return 0, ErrBadMode
	case f.lockLost.Load():
		return 0, ErrLockLost
	case off < 0:
		return 0, localError("COPY", nfsclient.ErrInval)
	}
	n = min(n, maxCopy, maxOffset-off)
	if err := to.mayChangeRange("COPY", toOff, max(n, 1)); err != nil || n <= 0 {
		return 0, err
	}
	// What is copied is stable, so that no restart of the server takes it away before. The source is done
	// with before the target is held: two copies in opposite directions do not wait for each other.
	if err := f.i.sync(ctx); err != nil {
		return 0, err
	}
	if err := f.pending(); err != nil {
		return 0, err
	}
	// Servers may refuse a range that goes beyond the end (RFC 7862 section 15.2.3).
	if err := f.c.revalidate(ctx, f.cr, f.i); err != nil {
		return 0, err
	}
	f.i.mu.Lock()
	a := f.i.outward()
	f.i.mu.Unlock()
	n = min(n, int64(min(a.Size, uint64(maxOffset)))-off)
	if n <= 0 {
		return 0, nil
	}
	var got int
	err := to.alone(ctx, f.open, func(ctx context.Context) (err error) {
		got, err = to.copyStably(ctx, f, off, toOff, n)
		return err
	})
	if err != nil {
		return 0, err // after which the call may still be under way
	}
	return got, nil
}

// copyStably is Copy with f, the target, held. What the server has not made stable is made so
// at once: nothing here keeps the bytes, to write them again.
func (f *File) copyStably(ctx context.Context, from *File, off, toOff, n int64) (int, error) {
	i, c := f.i, f.c
	for range copyTries {
		st := i.begin()
		r, err := c.ranges.Copy(ctx, f.cr, from.i.h, from.open.server(), uint64(off), i.h, f.open.server(), uint64(toOff), uint64(n))
		i.mu.Lock()
		i.finish(st, &r.Wcc, true)
		i.detachSpans(0, maxOffset)
		i.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case r.N < 0 || int64(r.N) > n:
			return 0, fmt.Errorf("%w: COPY of %d bytes copied %d", ErrServer, n, r.N)
		case r.N == 0:
			return 0, nil
		}
		if r.Committed == nfsclient.Unstable {
			st := i.begin()
			ver, wcc, err := c.cl.Commit(ctx, f.cr, i.h, 0, 0)
			i.mu.Lock()
			i.finish(st, &wcc, true)
			i.mu.Unlock()
			if err != nil {
				i.failed(err)
				return 0, err
			}
			if ver != r.Verifier {
				continue // the server has restarted in between
			}
		}
		i.longer(toOff + int64(r.N))
		return r.N, nil
	}
	return 0, fmt.Errorf("%w: after each of %d COPYs the server's write verifier was another, as if it had lost what was copied", ErrServer, copyTries)
}
