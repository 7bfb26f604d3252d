package workload

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Place is a directory to work in. Names are relative to it, separated by slashes.
// Errors are those of io/fs.
type Place interface {
	// OpenFile takes the flags of package os, and syscall.O_DIRECT.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Mkdir(name string) error
	Remove(name string) error // a file
	Rmdir(name string) error
	Rename(from, to string) error
	Chtimes(name string, t time.Time) error
}

// File is an open file of a Place.
type File interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

// Dir is a directory of the operating system. It uses system calls and nothing
// around them: package os would, of an open file, ask the kernel whether it can be
// polled, which costs a mount by FUSE a request.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// again repeats a system call that a signal has interrupted.
func again(call string, name string, f func() error) error {
	for {
		err := f()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &fs.PathError{Op: call, Path: name, Err: err}
		}
	}
}

func (d Dir) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	var fd int
	err := again("open", name, func() (err error) {
		fd, err = unix.Open(d.path(name), flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &osFile{fd, name}, nil
}

func (d Dir) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(d.path(name)) }
func (d Dir) ReadDir(name string) ([]fs.DirEntry, error) { return readDir(d.path(name)) }

func (d Dir) Mkdir(name string) error {
	return again("mkdir", name, func() error { return unix.Mkdir(d.path(name), 0o755) })
}

func (d Dir) Remove(name string) error {
	return again("unlink", name, func() error { return unix.Unlink(d.path(name)) })
}

func (d Dir) Rmdir(name string) error {
	return again("rmdir", name, func() error { return unix.Rmdir(d.path(name)) })
}

func (d Dir) Rename(from, to string) error {
	return again("rename", from, func() error { return unix.Rename(d.path(from), d.path(to)) })
}

func (d Dir) Chtimes(name string, t time.Time) error { return os.Chtimes(d.path(name), t, t) }

// readDir is os.ReadDir, but in the file system's order.
func readDir(name string) (list []fs.DirEntry, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.ReadDir(-1)
}

// osFile is a file of a Dir.
type osFile struct {
	fd   int
	name string
}

func (f *osFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err = again("read", f.name, func() (err error) {
			m, err = unix.Pread(f.fd, p[n:], off+int64(n))
			return err
		})
		if err == nil && m == 0 {
			err = io.EOF
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err = again("write", f.name, func() (err error) {
			m, err = unix.Pwrite(f.fd, p[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func (f *osFile) Sync() error {
	return again("fsync", f.name, func() error { return unix.Fsync(f.fd) })
}

func (f *osFile) Close() error {
	if err := unix.Close(f.fd); err != nil {
		return &fs.PathError{Op: "close", Path: f.name, Err: err}
	}
	return nil
}
