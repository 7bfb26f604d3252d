package rdmafs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// File is an open file or directory.
type File struct {
	*file
	ctx context.Context
}

var (
	_ fs.ReadDirFile  = (*File)(nil)
	_ io.ReadWriter   = (*File)(nil)
	_ io.Seeker       = (*File)(nil)
	_ io.ReaderAt     = (*File)(nil)
	_ io.WriterAt     = (*File)(nil)
	_ io.StringWriter = (*File)(nil)
)

// file is what all views of a File share.
type file struct {
	x     *export
	name  string
	fsys  *FS // for the entries of a directory
	data  *cache.File
	dir   *cache.Dir   // in place of data
	inode *cache.Inode // referenced for dir, else data's
	// appends and write are what the file was opened for.
	appends, write bool

	uses gate
	turn chan struct{} // holds a token while the position is being moved

	// By turn.

	pos     int64
	atEnd   bool // pos is the end of the file: what was appended ends there
	listing listing
}

// Open opens a file or directory for reading. The caller closes the result, which
// is a *File.
func (f *FS) Open(name string) (fs.File, error) {
	o, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err // not an fs.File that holds nil
	}
	return o, nil
}

// Create opens a file for reading and writing, and makes it with the mode 0644,
// or cuts it to nothing if it exists. The caller closes the File.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// OpenFile opens a file as os.OpenFile does, but without a umask. Beside the
// flags of package os it knows syscall.O_DIRECT, O_DIRECTORY and O_NOFOLLOW.
// Devices, sockets and named pipes cannot be opened. The caller closes the File.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (o *File, err error) {
	err = f.do(func(ctx context.Context) (err error) {
		o, err = f.open(ctx, name, flag, perm)
		return err
	})
	return o, f.x.pathError("open", name, err)
}

// openMode is what open(2)'s flags ask for.
func openMode(flag int) cache.OpenMode {
	access := flag & syscall.O_ACCMODE
	return cache.OpenMode{
		Read:     access == os.O_RDONLY || access == os.O_RDWR,
		Write:    access == os.O_WRONLY || access == os.O_RDWR,
		Truncate: flag&os.O_TRUNC != 0,
		Sync:     flag&(os.O_SYNC|syscall.O_DSYNC) != 0,
		Direct:   flag&syscall.O_DIRECT != 0,
	}
}

func (f *FS) open(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	mode := openMode(flag)
	exclusive := flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	p, err := f.walk(ctx, name, flag&syscall.O_NOFOLLOW == 0 && !exclusive)
	if err != nil {
		return nil, err
	}
	defer p.free()
	o := &file{x: f.x, name: name, fsys: f, appends: flag&os.O_APPEND != 0, write: mode.Write, turn: make(chan struct{}, 1)}
	i, err := p.inode()
	create := err != nil && flag&os.O_CREATE != 0
	switch {
	case f.x.readOnly && (mode.Write || mode.Truncate || create):
		err = syscall.EROFS
	case create:
		var e cache.Entry
		e, o.data, err = p.cache.Create(ctx, f.cred, p.dir(), p.name, permissions(perm), exclusive, mode)
		if err == nil {
			o.inode = e.Inode
			p.cache.Forget(e.Inode, 1) // the open file keeps it
		}
	case err != nil:
	case exclusive:
		err = syscall.EEXIST
	case i.Type() == nfsclient.SymbolicLink:
		err = syscall.ELOOP
	case i.Type() == nfsclient.Directory && (mode.Write || mode.Truncate || flag&os.O_CREATE != 0):
		err = syscall.EISDIR
	case i.Type() == nfsclient.Directory:
		o.inode = i
		o.dir, err = p.cache.OpenDir(ctx, f.cred, i)
	case flag&syscall.O_DIRECTORY != 0:
		err = syscall.ENOTDIR
	case i.Type() != nfsclient.Regular:
		err = syscall.EOPNOTSUPP
	default:
		o.inode = i
		o.data, _, err = p.cache.Open(ctx, f.cred, i, mode)
	}
	if err != nil {
		return nil, err
	}
	f.x.mu.Lock()
	f.x.open[o] = struct{}{}
	f.x.mu.Unlock()
	return &File{o, f.ctx}, nil
}

// WithContext returns a view of the open file whose methods end when ctx does.
// To close one of the views closes all.
func (f *File) WithContext(ctx context.Context) *File {
	if ctx == nil {
		panic("rdmafs: nil context")
	}
	return &File{f.file, ctx}
}

// Name returns the name that the file was opened by.
func (f *File) Name() string { return f.name }

// use carries out an operation on an open file.
func (f *File) use(op string, call func(ctx context.Context) error) error {
	ctx, end, err := f.x.begin(f.ctx)
	if err == nil {
		err = f.within(ctx, call)
		end()
	}
	if err == io.EOF {
		return err
	}
	return f.x.pathError(op, f.name, err)
}

func (f *File) within(ctx context.Context, call func(ctx context.Context) error) error {
	if !f.uses.enter() {
		return fs.ErrClosed
	}
	defer f.leave()
	return call(ctx)
}

// leave ends a use of the file; the last one after Close releases it.
func (f *file) leave() {
	if f.uses.leave() {
		f.x.mu.Lock()
		delete(f.x.open, f)
		f.x.mu.Unlock()
		f.release()
	}
}

func (f *file) release() {
	if f.dir != nil {
		f.dir.Close()
		return
	}
	f.data.Release()
}

// move carries out an operation that moves the position, one at a time.
func (f *File) move(op string, call func(ctx context.Context) error) error {
	return f.use(op, func(ctx context.Context) error {
		select {
		case f.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-f.turn }()
		return call(ctx)
	})
}

// position is where the next Read or Write begins. The caller has the turn.
func (f *File) position(ctx context.Context) (int64, error) {
	if f.atEnd {
		size, err := f.size(ctx)
		if err != nil {
			return 0, err
		}
		f.pos, f.atEnd = size, false
	}
	return f.pos, nil
}

func (f *File) size(ctx context.Context) (int64, error) {
	a, _, err := f.x.cache.GetSize(ctx, f.fsys.cred, f.inode)
	return (&fileInfo{attr: a}).Size(), err
}

// piece is what is asked of the cache at once: it reads ahead behind each.
const piece = 1 << 20

// readAt reads until p is full or the file ends.
func (f *File) readAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if f.data == nil {
		return 0, syscall.EISDIR
	}
	if off < 0 {
		return 0, syscall.EINVAL
	}
	for n < len(p) {
		want := p[n:min(len(p), n+piece)]
		k, err := f.data.Read(ctx, want, off+int64(n))
		n += k
		if err != nil {
			return n, err
		}
		if k < len(want) {
			break
		}
	}
	return n, nil
}

// Read reads from the file's position on. It fills p unless the file ends.
func (f *File) Read(p []byte) (n int, err error) {
	err = f.move("read", func(ctx context.Context) error {
		pos, err := f.position(ctx)
		if err != nil {
			return err
		}
		n, err = f.readAt(ctx, p, pos)
		f.pos += int64(n)
		if n == 0 && len(p) > 0 && err == nil {
			return io.EOF
		}
		return err
	})
	return n, err
}

// ReadAt reads from off on. It is io.EOF if the file ends before p is full.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.use("read", func(ctx context.Context) error {
		n, err = f.readAt(ctx, p, off)
		if n < len(p) && err == nil {
			return io.EOF
		}
		return err
	})
	return n, err
}

// CopyAt writes len(buf) bytes of the file, from off on, to w at the same offset. It is
// ReadAt into buf and WriteAt from there, but for data that can be written from where it was
// received: buf is not touched then. It is io.EOF if the file ends before.
func (f *File) CopyAt(w io.WriterAt, buf []byte, off int64) (n int, err error) {
	err = f.use("read", func(ctx context.Context) error {
		if f.data == nil {
			return syscall.EISDIR
		}
		if off < 0 {
			return syscall.EINVAL
		}
		for n < len(buf) {
			want := buf[n:min(len(buf), n+piece)]
			k, lent, err := f.data.ReadLent(ctx, want, off+int64(n))
			if err != nil {
				return err
			}
			from := want[:k]
			if b := lent.Bytes(); b != nil {
				from = b
			}
			m, err := w.WriteAt(from, off+int64(n))
			lent.Release()
			n += m
			switch {
			case err != nil:
				return err
			case m < k:
				return io.ErrShortWrite
			case k < len(want):
				return io.EOF
			}
		}
		return nil
	})
	return n, err
}

// put writes p with a call of the cache, which may take less at once.
func put(ctx context.Context, p []byte, off int64, call func(context.Context, []byte, int64) (int, error)) (n int, err error) {
	for {
		k, err := call(ctx, p[n:], off+int64(n))
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
		if k == 0 {
			return n, io.ErrShortWrite
		}
	}
}

// Write writes at the file's position, or at its end if it was opened with
// O_APPEND. What is written is sent in the background: Sync and Close say
// whether it is on stable storage. An error of an earlier write is returned
// until Sync has returned it.
func (f *File) Write(p []byte) (n int, err error) {
	err = f.move("write", func(ctx context.Context) error {
		if f.data == nil {
			return syscall.EBADF
		}
		if f.appends {
			n, err = put(ctx, p, 0, f.data.Append)
			f.atEnd = true
			return err
		}
		pos, err := f.position(ctx)
		if err != nil {
			return err
		}
		n, err = put(ctx, p, pos, f.data.Write)
		f.pos += int64(n)
		return err
	})
	return n, err
}

// WriteString is Write of a string.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

var errAppend = errors.New("rdmafs: WriteAt on a file opened with O_APPEND")

// WriteAt writes at off, as Write does. A file opened with O_APPEND does not
// have it.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.use("write", func(ctx context.Context) error {
		switch {
		case f.data == nil:
			return syscall.EBADF
		case off < 0:
			return syscall.EINVAL
		case f.appends:
			return errAppend
		}
		n, err = put(ctx, p, off, f.data.Write)
		return err
	})
	return n, err
}

// Seek moves the file's position. Of a directory only the start can be sought.
func (f *File) Seek(offset int64, whence int) (pos int64, err error) {
	err = f.move("seek", func(ctx context.Context) error {
		if f.data == nil {
			if offset != 0 || whence != io.SeekStart {
				return syscall.EINVAL
			}
			f.listing = listing{}
			return nil
		}
		var from int64
		var err error
		switch whence {
		case io.SeekStart:
		case io.SeekCurrent:
			from, err = f.position(ctx)
		case io.SeekEnd:
			from, err = f.size(ctx)
		default:
			err = syscall.EINVAL
		}
		if err != nil {
			return err
		}
		if offset < -from || offset > 0 && from > 1<<63-1-offset {
			return syscall.EINVAL
		}
		pos = from + offset
		f.pos, f.atEnd = pos, false
		return nil
	})
	return pos, err
}

// Stat returns the file's attributes, as FS.Stat does.
func (f *File) Stat() (info fs.FileInfo, err error) {
	err = f.use("stat", func(ctx context.Context) (err error) {
		info, err = f.x.stat(ctx, f.fsys.cred, f.name, f.inode)
		return err
	})
	return info, err
}

// Sync returns when every byte that was written to the file before, by whomever
// in this FS, is on the server's stable storage, or returns what kept one from
// there. An error of a write in the background is returned by Write, WriteAt and
// Close until Sync has returned it, once.
func (f *File) Sync() error {
	return f.use("sync", func(ctx context.Context) error {
		if f.data == nil {
			return nil // changes of directories are stable when they are answered
		}
		return f.data.Fsync(ctx)
	})
}

// Truncate changes the file's size.
func (f *File) Truncate(size int64) error {
	return f.use("truncate", func(ctx context.Context) error {
		s, err := resize(size)
		switch {
		case err != nil:
			return err
		case f.data == nil || !f.write:
			return syscall.EINVAL
		}
		_, _, err = f.x.cache.SetAttr(ctx, f.fsys.cred, f.inode, s)
		return err
	})
}

// Chmod changes the file's mode.
func (f *File) Chmod(mode fs.FileMode) error {
	return f.use("chmod", func(ctx context.Context) error {
		if f.x.readOnly {
			return syscall.EROFS
		}
		_, _, err := f.x.cache.SetAttr(ctx, f.fsys.cred, f.inode, permissions(mode))
		return err
	})
}

// Close ends the use of the file. It returns when everything that was written to
// it is on the server's stable storage, or returns what kept it from there. If
// its context ends before, what is not written yet goes on being written, and
// FS.Sync and FS.Close say whether it was lost.
func (f *File) Close() error {
	return f.use("close", func(ctx context.Context) error {
		if !f.uses.close() {
			return fs.ErrClosed
		}
		if f.data == nil {
			return nil
		}
		return f.data.Flush(ctx)
	})
}
