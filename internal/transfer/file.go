package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

// job is a file to copy. info is what the walk saw of it.
type job struct {
	tree     filetree.Tree
	from, to string
	info     fs.FileInfo
}

// partName is the name under which a copy is written until it is whole.
func partName(to string, source fs.FileInfo) string {
	dev, ino, _ := filetree.ID(source)
	h := fnv.New64a()
	fmt.Fprint(h, dev, ino, source.Size(), source.ModTime().UnixNano())
	dir, base := path.Split(to)
	const most = 200 // of the 255 bytes that a name may have
	return fmt.Sprintf("%s.%s.%016x.part", dir, base[:min(len(base), most)], h.Sum64())
}

// file copies a regular file.
func (c *Copier) file(ctx context.Context, j job) error {
	found := j.info.Size()
	var moved int64
	defer func() { c.o.Progress.done(found - moved) }()
	old, err := c.target(j.to)
	if err != nil {
		return err
	}
	if old.info != nil {
		same, err := c.upToDate(ctx, j, old.info)
		if err != nil || same {
			return err
		}
	}
	if c.o.DryRun {
		c.copied(j.to)
		return nil
	}
	from, err := j.tree.OpenFile(j.from, openFrom(j.info.Size()), 0)
	if err != nil {
		return err
	}
	defer from.Close()
	source, err := from.Stat()
	if err != nil {
		return err
	}
	if source.Mode()&fs.ModeType != 0 {
		return &fs.PathError{Op: "copy", Path: j.from, Err: errNotRegular}
	}
	if old.info != nil && sameFile(source, old.info) {
		return &fs.PathError{Op: "copy", Path: j.from, Err: errors.New("is the same file as " + j.to)}
	}
	out, err := c.create(j.to, old, source)
	if err != nil {
		return err
	}
	err = c.fill(ctx, out, from, source)
	if e := out.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = c.finish(out, source, old)
	}
	if err != nil {
		if out.name != j.to && !c.o.Resume && ctx.Err() == nil {
			err = errors.Join(err, c.to.Remove(out.name))
		}
		return &fs.PathError{Op: "copy", Path: j.from, Err: err}
	}
	moved = source.Size()
	c.copied(j.to)
	return nil
}

var errNotRegular = errors.New("not a regular file")

// existing is what a copy's target is before.
type existing struct {
	info fs.FileInfo // nil: there is nothing
	link bool        // a symbolic link leads to it
}

// target looks at what is where a file is to be.
func (c *Copier) target(name string) (existing, error) {
	info, err := c.to.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return existing{}, nil
	}
	if err != nil {
		return existing{}, err
	}
	e := existing{info: info}
	if info.Mode()&fs.ModeSymlink != 0 {
		if e.info, err = c.to.Stat(name); err != nil {
			return existing{}, err
		}
		e.link = true
	}
	if e.info.Mode()&fs.ModeType != 0 {
		return existing{}, &fs.PathError{Op: "copy to", Path: name, Err: errNotRegular}
	}
	return e, nil
}

// sameFile reports whether two names are of one file, to be told before it is emptied. Trees
// may be of one server: what they have in common is what its files say of themselves.
func sameFile(a, b fs.FileInfo) bool {
	_, m, _ := filetree.ID(a)
	_, n, _ := filetree.ID(b)
	return m == n && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && filetree.ChangeTime(a).Equal(filetree.ChangeTime(b))
}

// output is a file that a copy is written to.
type output struct {
	filetree.File
	name   string
	target string // what name becomes; the same if it is written in place
	done   int64  // bytes that are there from an earlier attempt
}

// create opens what a copy is written to: a file beside the target, or the target.
func (c *Copier) create(to string, old existing, source fs.FileInfo) (*output, error) {
	const create = syscall.O_RDWR | syscall.O_CREAT
	if old.info != nil && (c.o.InPlace || old.link) {
		return c.inPlace(to)
	}
	part := partName(to, source)
	if c.o.Resume {
		if out, err := c.resume(part, to, source.Size()); err == nil {
			return out, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := c.to.OpenFile(part, create|syscall.O_EXCL|c.directTo(source.Size()), 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err = c.to.Remove(part); err == nil {
			f, err = c.to.OpenFile(part, create|syscall.O_EXCL|c.directTo(source.Size()), 0o600)
		}
	}
	if errors.Is(err, fs.ErrPermission) && old.info != nil {
		return c.inPlace(to)
	}
	if err != nil {
		return nil, err
	}
	return &output{File: f, name: part, target: to}, nil
}

// directTo is O_DIRECT where pieces must be stable before they count.
func (c *Copier) directTo(size int64) int {
	if c.o.Resume && size > pieceSize {
		return syscall.O_DIRECT
	}
	return 0
}

func (c *Copier) inPlace(to string) (*output, error) {
	f, err := c.to.OpenFile(to, syscall.O_WRONLY|syscall.O_TRUNC, 0)
	if err != nil {
		return nil, err
	}
	return &output{File: f, name: to, target: to}, nil
}

// resume opens what an earlier attempt has left.
func (c *Copier) resume(part, to string, size int64) (*output, error) {
	info, err := c.to.Lstat(part)
	if err != nil {
		return nil, err
	}
	_, _, names := filetree.ID(info)
	if info.Mode()&fs.ModeType != 0 || names != 1 {
		// Somebody else's: whoever may make names there could have it lead elsewhere.
		return nil, &fs.PathError{Op: "resume", Path: part, Err: errNotRegular}
	}
	f, err := c.to.OpenFile(part, syscall.O_RDWR|syscall.O_NOFOLLOW|c.directTo(size), 0)
	if err != nil {
		return nil, err
	}
	sure := max(0, min(info.Size(), size)/pieceSize-window) * pieceSize
	return &output{File: f, name: part, target: to, done: sure}, nil
}

// fill copies the contents.
func (c *Copier) fill(ctx context.Context, out *output, from filetree.File, source fs.FileInfo) error {
	size := source.Size()
	c.o.Progress.moved(out.done)
	// What is zero in a file with holes stays a hole, in a file that was empty before.
	holes := out.done == 0 && filetree.Used(source) < size
	switch {
	case size == 0: // or one that does not say
		return c.stream(ctx, out, from)
	case size <= pieceSize:
		buf, err := c.buffers.take(ctx)
		if err != nil {
			return err
		}
		defer c.buffers.give(buf)
		if err := piece(out, from, buf, 0, int(size), holes); err != nil {
			return err
		}
		c.o.Progress.moved(size)
	default:
		if err := c.data(ctx, out, from, out.done, size, holes); err != nil {
			return err
		}
	}
	if holes || c.o.Resume {
		return out.Truncate(size)
	}
	return nil
}

// finish gives a copy, which is stable, its attributes and its name.
func (c *Copier) finish(out *output, source fs.FileInfo, old existing) error {
	if err := c.fileAttributes(out, source, old.info); err != nil || out.name == out.target {
		return err
	}
	return c.to.Rename(out.name, out.target)
}
