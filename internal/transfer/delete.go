package transfer

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

// deleteAll removes what the source does not have, unless anything failed: what could
// not be read would be taken for missing.
func (c *Copier) deleteAll(ctx context.Context) {
	c.mu.Lock()
	failed := c.failed
	c.mu.Unlock()
	if !c.o.Delete {
		return
	}
	if failed > 0 {
		c.fail(errors.New("nothing was deleted, because not all could be copied"))
		return
	}
	for _, d := range c.dirs {
		if d.kept == nil {
			continue
		}
		entries, err := c.to.ReadDir(d.to)
		if err != nil {
			c.fail(err)
			continue
		}
		for _, e := range entries {
			if d.kept[e.Name()] || ctx.Err() != nil {
				continue
			}
			name := filetree.Path(d.to, e.Name())
			if !c.o.DryRun {
				c.fail(Remove(ctx, c.to, name, true, nil))
			}
			c.mu.Lock()
			if c.o.Deleted != nil {
				c.o.Deleted(name)
			}
			c.mu.Unlock()
		}
	}
}

// Remove removes a file, or a directory with all that is in it if recursive is set.
// removed is told of each name that is gone; it may be nil. The errors of all that could
// not be removed are joined. What is gone already is none.
func Remove(ctx context.Context, t filetree.Tree, name string, recursive bool, removed func(string)) error {
	info, err := t.Lstat(name)
	if err != nil {
		return err
	}
	return remove(ctx, t, name, info.IsDir(), recursive, removed)
}

func remove(ctx context.Context, t filetree.Tree, name string, isDir, recursive bool, removed func(string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	if isDir {
		if !recursive {
			return &fs.PathError{Op: "remove", Path: name, Err: errors.New("is a directory (-r removes those)")}
		}
		entries, err := t.ReadDir(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		errs = inParallel(len(entries), func(k int) error {
			e := entries[k]
			return remove(ctx, t, filetree.Path(name, e.Name()), e.IsDir(), true, removed)
		})
	}
	if err := errors.Join(errs...); err != nil {
		return err // the directory is not empty
	}
	err := t.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && removed != nil {
		removed(name)
	}
	return err
}
