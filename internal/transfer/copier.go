package transfer

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

// Copier copies files to a tree.
type Copier struct {
	to      filetree.Tree
	o       Options
	buffers *buffers
	jobs    chan job
	workers sync.WaitGroup

	// Of the goroutine that walks.

	dirs  []dir
	names map[fileID]string // of files with several names: their first target
	links []link

	mu     sync.Mutex // guards what follows, and the calls of Options' functions
	failed int
}

// fileID tells files of several names apart.
type fileID struct {
	tree     filetree.Tree
	dev, ino uint64
}

// link is a further name of a file that is copied under another.
type link struct {
	to, name string
	source   fs.FileInfo
}

// dir is a directory that was copied.
type dir struct {
	to   string
	info fs.FileInfo
	made bool
	kept map[string]bool // its entries; nil: nothing is to be deleted
}

// New starts a Copier, which must be ended by Close.
func New(ctx context.Context, to filetree.Tree, o Options) *Copier {
	if o.Files == 0 {
		o.Files = 8
	}
	c := &Copier{to: to, o: o, buffers: newBuffers(), jobs: make(chan job, o.Files), names: map[fileID]string{}}
	for range o.Files {
		c.workers.Go(func() { c.runFiles(ctx) })
	}
	return c
}

// runFiles copies files until there are no more.
func (c *Copier) runFiles(ctx context.Context) {
	for j := range c.jobs {
		if ctx.Err() != nil {
			continue
		}
		c.fail(c.file(ctx, j))
	}
}

// fail reports an error, once; nil is none.
func (c *Copier) fail(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++
	c.o.Failed(err)
}

func (c *Copier) copied(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.Copied != nil {
		c.o.Copied(name)
	}
}

// Copy copies what has a name in a tree, and what is in it, to a name. Errors are
// reported to Options.Failed. Files may still be being copied when it returns.
func (c *Copier) Copy(ctx context.Context, tree filetree.Tree, from, to string) {
	if tree == c.to && within(to, from) {
		c.fail(&fs.PathError{Op: "copy", Path: from, Err: errors.New("cannot be copied onto or into itself")})
		return
	}
	info, err := tree.Lstat(from)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && (c.o.Follow || !c.o.Recursive) {
		info, err = tree.Stat(from)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.walk(ctx, job{tree, from, to, info}, nil)
}

// within reports whether a name is another, or below it.
func within(name, dir string) bool {
	name, dir = path.Clean(name), path.Clean(dir)
	return dir == "." && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "..") || name == dir || strings.HasPrefix(name, strings.TrimRight(dir, "/")+"/")
}

// walk copies one name. above are the directories that it is in.
func (c *Copier) walk(ctx context.Context, j job, above []fileID) {
	if ctx.Err() != nil {
		return
	}
	switch typ := j.info.Mode() & fs.ModeType; typ {
	case 0:
		if c.hardLink(j) {
			return
		}
		c.o.Progress.found(j.info.Size())
		select {
		case c.jobs <- j:
		case <-ctx.Done():
		}
	case fs.ModeDir:
		dev, ino, _ := filetree.ID(j.info)
		id := fileID{j.tree, dev, ino}
		switch {
		case !c.o.Recursive:
			c.fail(&fs.PathError{Op: "copy", Path: j.from, Err: errors.New("is a directory (-r copies those)")})
		case slices.Contains(above, id):
			c.fail(&fs.PathError{Op: "copy", Path: j.from, Err: errors.New("a symbolic link leads back to a directory that it is in")})
		default:
			c.directory(ctx, j, append(above, id))
		}
	case fs.ModeSymlink:
		c.fail(c.symlink(j))
	default:
		c.fail(&fs.PathError{Op: "copy", Path: j.from, Err: errors.New("is a device, a socket or a named pipe, which are not copied")})
	}
}

// hardLink reports whether a file is a further name of one that is copied already.
func (c *Copier) hardLink(j job) bool {
	dev, ino, names := filetree.ID(j.info)
	if !c.o.HardLinks || names < 2 {
		return false
	}
	id := fileID{j.tree, dev, ino}
	first, known := c.names[id]
	if !known {
		c.names[id] = j.to
		return false
	}
	c.links = append(c.links, link{to: first, name: j.to, source: j.info})
	return true
}

// directory makes a directory and copies what is in it.
func (c *Copier) directory(ctx context.Context, j job, above []fileID) {
	entries, err := j.tree.ReadDir(j.from)
	if err != nil {
		c.fail(err)
		return
	}
	d := dir{to: j.to, info: j.info}
	old, err := c.to.Lstat(j.to)
	switch {
	case err == nil && old.Mode()&fs.ModeSymlink != 0:
		old, err = c.to.Stat(j.to)
	case errors.Is(err, fs.ErrNotExist):
		d.made, err = true, nil
		if !c.o.DryRun {
			err = c.to.Mkdir(j.to, 0o700)
		}
		c.copied(j.to)
	}
	if err == nil && !d.made && !old.IsDir() {
		err = &fs.PathError{Op: "copy", Path: j.from, Err: errors.New("a directory cannot take the place of " + j.to + ", which is none")}
	}
	if err != nil {
		c.fail(err)
		return
	}
	if c.o.Delete && !d.made {
		d.kept = make(map[string]bool, len(entries))
		for _, e := range entries {
			d.kept[e.Name()] = true
		}
	}
	c.dirs = append(c.dirs, d)
	for _, e := range entries {
		in := job{tree: j.tree, from: filetree.Path(j.from, e.Name()), to: filetree.Path(j.to, e.Name())}
		if in.info, err = e.Info(); err == nil && c.o.Follow && in.info.Mode()&fs.ModeSymlink != 0 {
			in.info, err = j.tree.Stat(in.from)
		}
		if err != nil {
			c.fail(err)
			continue
		}
		c.walk(ctx, in, above)
	}
}

// symlink makes a symbolic link like another.
func (c *Copier) symlink(j job) error {
	target, err := j.tree.ReadLink(j.from)
	if err != nil {
		return err
	}
	old, err := c.to.Lstat(j.to)
	exists := err == nil
	if exists {
		if old.IsDir() {
			return &fs.PathError{Op: "copy", Path: j.from, Err: errors.New("a symbolic link cannot take the place of the directory " + j.to)}
		}
		if there, err := c.to.ReadLink(j.to); err == nil && there == target || c.o.When == Missing {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.copied(j.to)
	if c.o.DryRun {
		return nil
	}
	name := j.to
	if exists {
		name = partName(j.to, j.info)
	}
	if err := c.to.Symlink(target, name); err != nil {
		return err
	}
	if c.o.Owners {
		if _, err := c.chown(name, j.info); err != nil {
			return err
		}
	}
	if exists {
		return c.to.Rename(name, j.to)
	}
	return nil
}

// Close waits until all files are copied, and then makes further names, sets what is to
// be preserved of directories and deletes. It returns how many errors were
// reported. It must be called once.
func (c *Copier) Close(ctx context.Context) (failed int) {
	c.o.Progress.end()
	close(c.jobs)
	c.workers.Wait()
	if ctx.Err() == nil {
		for _, l := range c.links {
			c.fail(c.makeLink(l))
		}
		c.deleteAll(ctx)
		for _, d := range slices.Backward(c.dirs) {
			if !c.o.DryRun {
				c.fail(c.dirAttributes(d.to, d.info, d.made))
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// makeLink gives a file that was copied a further name.
func (c *Copier) makeLink(l link) error {
	first, err := c.to.Lstat(l.to)
	if err != nil {
		return err
	}
	old, err := c.to.Lstat(l.name)
	if err == nil {
		_, a, _ := filetree.ID(first)
		if _, b, _ := filetree.ID(old); a == b {
			return nil
		}
	}
	c.copied(l.name)
	if c.o.DryRun {
		return nil
	}
	part := partName(l.name, l.source)
	if err := c.to.Link(l.to, part); err != nil {
		return err
	}
	return c.to.Rename(part, l.name)
}
