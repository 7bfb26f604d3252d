package transfer

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

// timeGrain is the coarsest time that servers and disks in use keep.
const timeGrain = time.Microsecond

// upToDate reports whether a target that exists need not be copied anew.
func (c *Copier) upToDate(ctx context.Context, j job, old fs.FileInfo) (bool, error) {
	switch c.o.When {
	case Missing:
		return true, nil
	case Older:
		return !old.ModTime().Before(j.info.ModTime()), nil
	case Differs:
		return old.Size() == j.info.Size() && old.ModTime().Truncate(timeGrain).Equal(j.info.ModTime().Truncate(timeGrain)), nil
	case Contents:
		if old.Size() != j.info.Size() {
			return false, nil
		}
		return c.equal(ctx, j)
	}
	return false, nil
}

// equal compares a file with its target.
func (c *Copier) equal(ctx context.Context, j job) (bool, error) {
	a, err := j.tree.OpenFile(j.from, openFrom(j.info.Size()), 0)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := c.to.OpenFile(j.to, openFrom(0), 0)
	if err != nil {
		return false, err
	}
	defer b.Close()
	return equalFiles(ctx, a, b)
}

func equalFiles(ctx context.Context, a, b filetree.File) (bool, error) {
	p, q := make([]byte, pieceSize), make([]byte, pieceSize)
	for off := int64(0); ; off += pieceSize {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, errA := a.ReadAt(p, off)
		m, errB := b.ReadAt(q, off)
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF {
				return false, err
			}
		}
		if n != m || !bytes.Equal(p[:n], q[:m]) {
			return false, nil
		}
		if n < pieceSize {
			return true, nil
		}
	}
}
