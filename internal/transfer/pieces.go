package transfer

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

const (
	// pieceSize is what is read and written at once.
	pieceSize = 1 << 20
	// window is how many pieces of one file are under way at most, and how far apart: the
	// first that is not written is fewer than window pieces before the last that is begun.
	window = 16
	// maxBuffers bounds the memory for pieces of all files, in pieces.
	maxBuffers = 32
)

// buffers are a bounded number of buffers of pieceSize bytes.
type buffers struct{ free chan []byte }

func newBuffers() *buffers {
	b := &buffers{make(chan []byte, maxBuffers)}
	for range maxBuffers {
		b.free <- nil // made when it is used first
	}
	return b
}

func (b *buffers) take(ctx context.Context) ([]byte, error) {
	select {
	case p := <-b.free:
		if p == nil {
			p = make([]byte, pieceSize)
		}
		return p, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *buffers) give(p []byte) { b.free <- p }

var errShrunk = errors.New("the file became shorter while it was copied")

// piece copies n bytes at off by way of buf. Zeros are left out if holes is set.
func piece(to, from filetree.File, buf []byte, off int64, n int, holes bool) error {
	buf = buf[:n]
	if c, ok := from.(filetree.CopierAt); ok && !holes {
		_, err := c.CopyAt(to, buf, off)
		if err == io.EOF {
			return errShrunk
		}
		return err
	}
	if k, err := from.ReadAt(buf, off); k < n {
		if err == nil || err == io.EOF {
			return errShrunk
		}
		return err
	}
	if holes && zero(buf) {
		return nil
	}
	_, err := to.WriteAt(buf, off)
	return err
}

func zero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// data copies the bytes from off on to size, several pieces at once.
func (c *Copier) data(ctx context.Context, to, from filetree.File, off, size int64, holes bool) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pieces sync.WaitGroup
	runPiece := func(buf []byte, off int64, n int, end chan<- struct{}) {
		defer pieces.Done()
		err := piece(to, from, buf, off, n, holes)
		c.buffers.give(buf)
		if err != nil {
			fail(err)
			return // end stays open: nothing behind this piece is begun
		}
		c.o.Progress.moved(int64(n))
		close(end)
	}
	var ended [window]chan struct{}
	for k := 0; off < size; k++ {
		if end := ended[k%window]; end != nil {
			select {
			case <-end:
			case <-ctx.Done():
			}
		}
		buf, err := c.buffers.take(ctx)
		if err != nil {
			break
		}
		if ctx.Err() != nil {
			c.buffers.give(buf)
			break
		}
		n := int(min(pieceSize, size-off))
		end := make(chan struct{})
		ended[k%window] = end
		pieces.Add(1)
		go runPiece(buf, off, n, end)
		off += int64(n)
	}
	pieces.Wait()
	return context.Cause(ctx)
}

// stream copies a file that does not say how long it is, as those of /proc.
func (c *Copier) stream(ctx context.Context, to, from filetree.File) error {
	buf, err := c.buffers.take(ctx)
	if err != nil {
		return err
	}
	defer c.buffers.give(buf)
	for off := int64(0); ; {
		n, err := from.ReadAt(buf, off)
		if n > 0 {
			if _, err := to.WriteAt(buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		if err == io.EOF || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
