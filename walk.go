package rdmafs

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// maxLinks is how many symbolic links a path may lead through, as on Linux.
const maxLinks = 40

// valid is fs.ValidPath for names that need not be UTF-8.
func valid(name string) bool {
	if name == "." {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.IndexByte(part, 0) >= 0 {
			return false
		}
	}
	return true
}

// place is where a path leads. Each inode but the root's carries a reference,
// which free gives back.
type place struct {
	cache *cache.Cache
	// dirs are the directories from the export's root down to the one that the
	// path ends in.
	dirs []*cache.Inode
	// name is the last component, in the last of dirs; empty when the path ends
	// with that directory itself.
	name string
	// found is what has the name, nil if nothing has.
	found *cache.Inode
}

// dir is the directory that holds name.
func (p *place) dir() *cache.Inode { return p.dirs[len(p.dirs)-1] }

// inode is what the path leads to.
func (p *place) inode() (*cache.Inode, error) {
	switch {
	case p.name == "":
		return p.dir(), nil
	case p.found == nil:
		return nil, syscall.ENOENT
	}
	return p.found, nil
}

// cut leaves the first n of dirs.
func (p *place) cut(n int) {
	for _, d := range p.dirs[n:] {
		p.cache.Forget(d, 1)
	}
	p.dirs = p.dirs[:n]
}

func (p *place) free() {
	p.cut(1)
	if p.found != nil {
		p.cache.Forget(p.found, 1)
	}
}

// walk follows a path. A symbolic link at its end is followed with follow. That
// the last component does not exist is no error.
func (f *FS) walk(ctx context.Context, name string, follow bool) (*place, error) {
	if !valid(name) {
		return nil, fs.ErrInvalid
	}
	c := f.x.cache
	p := &place{cache: c, dirs: []*cache.Inode{c.Root()}}
	err := f.steps(ctx, p, name, follow)
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

func (f *FS) steps(ctx context.Context, p *place, name string, follow bool) error {
	c := p.cache
	todo := strings.Split(name, "/")
	links := 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		last := len(todo) == 0
		switch part {
		case "", ".":
			continue
		case "..": // of a link's target
			p.cut(max(1, len(p.dirs)-1))
			continue
		}
		e, err := c.Lookup(ctx, f.cred, p.dir(), part)
		if last && nfsclient.Errno(err) == syscall.ENOENT {
			p.name = part
			return nil
		}
		if err != nil {
			return err
		}
		i := e.Inode
		if i.Type() == nfsclient.SymbolicLink && (follow || !last) {
			target, err := c.Readlink(ctx, f.cred, i)
			c.Forget(i, 1)
			if err != nil {
				return err
			}
			if links++; links > maxLinks {
				return syscall.ELOOP
			}
			if target == "" {
				return syscall.ENOENT
			}
			if target[0] == '/' {
				p.cut(1)
			}
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		switch {
		case last:
			p.name, p.found = part, i
		case i.Type() != nfsclient.Directory:
			c.Forget(i, 1)
			return syscall.ENOTDIR
		default:
			p.dirs = append(p.dirs, i)
		}
	}
	return nil
}

// to has call use what a path leads to.
func (f *FS) to(ctx context.Context, name string, follow bool, call func(i *cache.Inode) error) error {
	p, err := f.walk(ctx, name, follow)
	if err != nil {
		return err
	}
	defer p.free()
	i, err := p.inode()
	if err != nil {
		return err
	}
	return call(i)
}

// in has call use the directory and the last component of a path that is to be
// made, removed or renamed.
func (f *FS) in(ctx context.Context, name string, call func(p *place) error) error {
	p, err := f.walk(ctx, name, false)
	if err != nil {
		return err
	}
	defer p.free()
	return call(p)
}
