package rdmafs

import (
	"context"
	"io/fs"
	"math"
	"path"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// fileInfo is an fs.FileInfo.
type fileInfo struct {
	name string
	ino  uint64
	attr nfsclient.Attr
}

func (s *fileInfo) Name() string       { return s.name }
func (s *fileInfo) Size() int64        { return int64(min(s.attr.Size, math.MaxInt64)) }
func (s *fileInfo) Mode() fs.FileMode  { return fileMode(s.attr.Type, s.attr.Mode) }
func (s *fileInfo) ModTime() time.Time { return s.attr.Mtime }
func (s *fileInfo) IsDir() bool        { return s.attr.Type == nfsclient.Directory }
func (s *fileInfo) String() string     { return fs.FormatFileInfo(s) }

// Sys is a *syscall.Stat_t, as that of package os.
func (s *fileInfo) Sys() any {
	a := &s.attr
	st := &syscall.Stat_t{
		Ino: s.ino, Mode: unixType(a.Type) | a.Mode, Uid: a.UID, Gid: a.GID,
		Size: s.Size(), Blocks: int64(a.Used+511) / 512,
		Atim: syscall.NsecToTimespec(a.Atime.UnixNano()),
		Mtim: syscall.NsecToTimespec(a.Mtime.UnixNano()),
		Ctim: syscall.NsecToTimespec(a.Ctime.UnixNano()),
	}
	setInt(&st.Nlink, a.Nlink)
	setInt(&st.Blksize, 1<<20)
	return st
}

// setInt sets a field whose type is not the same on every machine.
func setInt[T ~int32 | ~uint32 | ~int64 | ~uint64](to *T, n uint32) { *to = T(n) }

// fileTypes are the types of files as package io/fs and as the kernel have them.
var fileTypes = [...]struct {
	mode fs.FileMode
	unix uint32
}{
	nfsclient.Regular:      {0, syscall.S_IFREG},
	nfsclient.Directory:    {fs.ModeDir, syscall.S_IFDIR},
	nfsclient.BlockDevice:  {fs.ModeDevice, syscall.S_IFBLK},
	nfsclient.CharDevice:   {fs.ModeDevice | fs.ModeCharDevice, syscall.S_IFCHR},
	nfsclient.SymbolicLink: {fs.ModeSymlink, syscall.S_IFLNK},
	nfsclient.Socket:       {fs.ModeSocket, syscall.S_IFSOCK},
	nfsclient.FIFO:         {fs.ModeNamedPipe, syscall.S_IFIFO},
}

func modeType(t nfsclient.FileType) fs.FileMode {
	if int(t) < len(fileTypes) {
		return fileTypes[t].mode
	}
	return fs.ModeIrregular
}

func unixType(t nfsclient.FileType) uint32 {
	if int(t) < len(fileTypes) {
		return fileTypes[t].unix
	}
	return 0
}

// specialBits are the mode bits beyond the permissions.
var specialBits = [...]struct {
	mode fs.FileMode
	unix uint32
}{{fs.ModeSetuid, syscall.S_ISUID}, {fs.ModeSetgid, syscall.S_ISGID}, {fs.ModeSticky, syscall.S_ISVTX}}

func fileMode(t nfsclient.FileType, unix uint32) fs.FileMode {
	m := modeType(t) | fs.FileMode(unix)&fs.ModePerm
	for _, b := range specialBits {
		if unix&b.unix != 0 {
			m |= b.mode
		}
	}
	return m
}

func unixMode(m fs.FileMode) uint32 {
	unix := uint32(m & fs.ModePerm)
	for _, b := range specialBits {
		if m&b.mode != 0 {
			unix |= b.unix
		}
	}
	return unix
}

// stat is the state of a file under a name.
func (x *export) stat(ctx context.Context, cr nfsclient.Cred, name string, i *cache.Inode) (fs.FileInfo, error) {
	a, _, err := x.cache.GetAttr(ctx, cr, i)
	if err != nil {
		return nil, err
	}
	return &fileInfo{name: path.Base(name), ino: i.Ino(), attr: a}, nil
}

// Stat returns the attributes of a file. Like stat(2) on a mount it first has
// data sent that was written to the file, whose times only the server knows.
// FileInfo.Sys is a *syscall.Stat_t.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat is Stat of a symbolic link itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (info fs.FileInfo, err error) {
	err = f.do(func(ctx context.Context) error {
		return f.to(ctx, name, follow, func(i *cache.Inode) (err error) {
			info, err = f.x.stat(ctx, f.cred, name, i)
			return err
		})
	})
	return info, f.x.pathError(op, name, err)
}

// setAttr changes attributes of what a path leads to.
func (f *FS) setAttr(op, name string, follow bool, s nfsclient.SetAttr) error {
	return f.x.pathError(op, name, f.change(func(ctx context.Context) error {
		return f.to(ctx, name, follow, func(i *cache.Inode) error {
			_, _, err := f.x.cache.SetAttr(ctx, f.cred, i, s)
			return err
		})
	}))
}

// Chmod changes the permissions of a file, its set-id bits and the sticky bit.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.setAttr("chmod", name, true, permissions(mode))
}

func owner(uid, gid int) (s nfsclient.SetAttr) {
	if uid >= 0 {
		u := uint32(uid)
		s.UID = &u
	}
	if gid >= 0 {
		g := uint32(gid)
		s.GID = &g
	}
	return s
}

// Chown changes the user and the group that a file belongs to; -1 leaves one as
// it is.
func (f *FS) Chown(name string, uid, gid int) error {
	return f.setAttr("chown", name, true, owner(uid, gid))
}

// Lchown is Chown of a symbolic link itself.
func (f *FS) Lchown(name string, uid, gid int) error {
	return f.setAttr("lchown", name, false, owner(uid, gid))
}

// Chtimes changes the times of last access and modification; a zero time leaves
// one as it is.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	var s nfsclient.SetAttr
	if !atime.IsZero() {
		s.SetAtime, s.Atime = nfsclient.TimeClient, atime
	}
	if !mtime.IsZero() {
		s.SetMtime, s.Mtime = nfsclient.TimeClient, mtime
	}
	return f.setAttr("chtimes", name, true, s)
}

// Truncate changes the size of a file.
func (f *FS) Truncate(name string, size int64) error {
	s, err := resize(size)
	if err != nil {
		return f.x.pathError("truncate", name, err)
	}
	return f.setAttr("truncate", name, true, s)
}

func resize(size int64) (nfsclient.SetAttr, error) {
	if size < 0 {
		return nfsclient.SetAttr{}, syscall.EINVAL
	}
	n := uint64(size)
	return nfsclient.SetAttr{Size: &n}, nil
}
