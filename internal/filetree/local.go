package filetree

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Local are the files of this machine.
type Local struct{}

var _ Tree = Local{}

func (Local) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag&^syscall.O_DIRECT, perm)
	if err != nil {
		return nil, err // not a File that holds nil
	}
	return f, nil
}

func (Local) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (Local) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(name) }
func (Local) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (Local) ReadLink(name string) (string, error)       { return os.Readlink(name) }
func (Local) Mkdir(name string, perm fs.FileMode) error  { return os.Mkdir(name, perm) }
func (Local) Remove(name string) error                   { return os.Remove(name) }
func (Local) Rename(from, to string) error               { return os.Rename(from, to) }
func (Local) Symlink(target, name string) error          { return os.Symlink(target, name) }
func (Local) Link(old, name string) error                { return os.Link(old, name) }
func (Local) Chmod(name string, mode fs.FileMode) error  { return os.Chmod(name, mode) }
func (Local) Lchown(name string, uid, gid int) error     { return os.Lchown(name, uid, gid) }
func (Local) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(name, atime, mtime)
}
