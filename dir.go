package rdmafs

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// listing is how far a directory was read.
type listing struct {
	off  uint64
	rest []cache.Dirent // of the part in use
	end  bool
}

// dirEntry is an fs.DirEntry.
type dirEntry struct {
	fsys *FS
	dir  string
	name string
	typ  nfsclient.FileType
}

func (e *dirEntry) Name() string      { return e.name }
func (e *dirEntry) IsDir() bool       { return e.typ == nfsclient.Directory }
func (e *dirEntry) Type() fs.FileMode { return modeType(e.typ) }
func (e *dirEntry) String() string    { return fs.FormatDirEntry(e) }

// Info is the state of the entry at this moment; what the listing brought is
// believed as long as any attribute is.
func (e *dirEntry) Info() (fs.FileInfo, error) { return e.fsys.Lstat(path.Join(e.dir, e.name)) }

// ReadDir reads entries of a directory in the server's order: at most n, and
// io.EOF at the end, or all that are left if n is not positive. Without an
// error each entry that was there throughout is returned once.
func (f *File) ReadDir(n int) (list []fs.DirEntry, err error) {
	err = f.move("readdir", func(ctx context.Context) error {
		if f.dir == nil {
			return syscall.ENOTDIR
		}
		for n <= 0 || len(list) < n {
			e, err := f.next(ctx)
			if err == io.EOF && (n <= 0 || len(list) > 0) {
				return nil
			}
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	return list, err
}

// next is the next entry of a directory. The caller has the turn.
func (f *File) next(ctx context.Context) (*dirEntry, error) {
	l := &f.listing
	for {
		if len(l.rest) == 0 {
			if l.end {
				return nil, io.EOF
			}
			f.dir.Given(l.off)
			part, err := f.dir.Next(ctx, l.off)
			if err != nil {
				return nil, err
			}
			l.rest, l.end = part, len(part) == 0
			continue
		}
		e := l.rest[0]
		l.rest, l.off = l.rest[1:], e.Off
		if e.Name == "." || e.Name == ".." {
			continue
		}
		d := &dirEntry{f.fsys, f.name, e.Name, e.Type}
		if d.typ == 0 {
			found, err := f.x.cache.Lookup(ctx, f.fsys.cred, f.inode, e.Name)
			if nfsclient.Errno(err) == syscall.ENOENT {
				continue // removed since it was listed
			}
			if err != nil {
				return nil, err
			}
			d.typ = found.Inode.Type()
			f.x.cache.Forget(found.Inode, 1)
		}
		return d, nil
	}
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := f.OpenFile(name, syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	list, err := d.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, first(err, d.Close())
}

// ReadFile returns the contents of a file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	o, err := f.OpenFile(name, 0, 0)
	if err != nil {
		return nil, err
	}
	b, err := o.readAll()
	return b, first(err, o.Close())
}

// readAll reads until the file ends, whatever its size was said to be.
func (f *File) readAll() ([]byte, error) {
	const most = 16 << 20 // to begin with: a size is the server's word
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, max(0, min(info.Size(), most))+1)
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

// WriteFile makes a file with these contents, or replaces those that it has.
// When it returns nil they are on the server's stable storage.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	o, err := f.OpenFile(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = o.Write(data)
	return first(err, o.Close())
}

// first is the first of two errors, as it is.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
