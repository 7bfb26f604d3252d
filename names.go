package rdmafs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// permissions are the mode bits that a file is made with.
func permissions(perm fs.FileMode) nfsclient.SetAttr {
	m := unixMode(perm)
	return nfsclient.SetAttr{Mode: &m}
}

// make has call make what name is to stand for.
func (f *FS) make(ctx context.Context, name string, call func(dir *cache.Inode, base string) (cache.Entry, error)) error {
	return f.in(ctx, name, func(p *place) error {
		if p.name == "" || p.found != nil {
			return syscall.EEXIST
		}
		e, err := call(p.dir(), p.name)
		if err == nil {
			p.cache.Forget(e.Inode, 1)
		}
		return err
	})
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	return f.x.pathError("mkdir", name, f.change(func(ctx context.Context) error {
		return f.make(ctx, name, func(dir *cache.Inode, base string) (cache.Entry, error) {
			return f.x.cache.Mkdir(ctx, f.cred, dir, base, permissions(perm))
		})
	}))
}

// MkdirAll makes a directory and those that it is to be in, as far as they do
// not exist.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	err := f.Mkdir(name, perm)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := f.MkdirAll(path.Dir(name), perm); err != nil {
			return err
		}
		err = f.Mkdir(name, perm)
	}
	if errors.Is(err, fs.ErrExist) {
		if st, serr := f.Stat(name); serr == nil {
			if st.IsDir() {
				return nil
			}
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
	}
	return err
}

// Symlink makes newname a symbolic link to oldname, which may be anything.
func (f *FS) Symlink(oldname, newname string) error {
	return f.x.linkError("symlink", oldname, newname, f.change(func(ctx context.Context) error {
		return f.make(ctx, newname, func(dir *cache.Inode, base string) (cache.Entry, error) {
			return f.x.cache.Symlink(ctx, f.cred, dir, base, oldname, permissions(0o777))
		})
	}))
}

// ReadLink returns the target of a symbolic link.
func (f *FS) ReadLink(name string) (target string, err error) {
	err = f.do(func(ctx context.Context) error {
		return f.to(ctx, name, false, func(i *cache.Inode) (err error) {
			if i.Type() != nfsclient.SymbolicLink {
				return syscall.EINVAL
			}
			target, err = f.x.cache.Readlink(ctx, f.cred, i)
			return err
		})
	})
	return target, f.x.pathError("readlink", name, err)
}

// Link makes newname another name of the file oldname.
func (f *FS) Link(oldname, newname string) error {
	return f.x.linkError("link", oldname, newname, f.change(func(ctx context.Context) error {
		return f.in(ctx, oldname, func(old *place) error {
			i, err := old.inode()
			if err != nil {
				return err
			}
			return f.make(ctx, newname, func(dir *cache.Inode, base string) (cache.Entry, error) {
				return f.x.cache.Link(ctx, f.cred, i, dir, base)
			})
		})
	}))
}

// Rename gives a file or directory another name, which it takes from a file, or
// an empty directory, that has it.
func (f *FS) Rename(oldname, newname string) error {
	return f.x.linkError("rename", oldname, newname, f.change(func(ctx context.Context) error {
		return f.in(ctx, oldname, func(old *place) error {
			return f.in(ctx, newname, func(to *place) error {
				switch {
				case old.name == "" || to.name == "":
					return syscall.EBUSY // the root
				case old.found == nil:
					return syscall.ENOENT
				}
				return f.x.cache.Rename(ctx, f.cred, old.dir(), old.name, to.dir(), to.name)
			})
		})
	}))
}

// Remove removes a file or an empty directory. A file that is open in this FS
// stays readable and writable until it is closed.
func (f *FS) Remove(name string) error {
	return f.x.pathError("remove", name, f.change(func(ctx context.Context) error {
		return f.in(ctx, name, func(p *place) error {
			switch {
			case p.name == "":
				return syscall.EBUSY // the root
			case p.found == nil:
				return syscall.ENOENT
			case p.found.Type() == nfsclient.Directory:
				return p.cache.Rmdir(ctx, f.cred, p.dir(), p.name)
			}
			return p.cache.Unlink(ctx, f.cred, p.dir(), p.name)
		})
	}))
}
