package filetree

import (
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// File is an open regular file.
type File interface {
	io.ReaderAt // fills its buffer unless the file ends
	io.WriterAt
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	// Close returns what kept data from stable storage, of an export's file.
	Close() error
}

// CopierAt is a File that can copy len(buf) bytes, from off on, to the same offset of w. It
// may write from memory of its own and leave buf untouched. It returns io.EOF if the file
// ends before.
type CopierAt interface {
	CopyAt(w io.WriterAt, buf []byte, off int64) (int, error)
}

// Tree is a tree of files. Errors are *fs.PathError or *os.LinkError. The Sys of what
// Stat and Lstat return is a *syscall.Stat_t.
type Tree interface {
	// OpenFile opens a file as os.OpenFile does. With O_DIRECT what is written is on stable
	// storage when WriteAt returns, if the tree has that: Local ignores it.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error) // sorted by name
	ReadLink(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(from, to string) error
	Symlink(target, name string) error
	Link(old, name string) error
	Chmod(name string, mode fs.FileMode) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
}

// Path is the name of an entry of a directory. "." stays out of it; ".." stays in, as
// what it leads to may be behind a symbolic link.
func Path(dir, entry string) string {
	if dir == "." {
		return entry
	}
	return strings.TrimRight(dir, "/") + "/" + entry
}

// Owner is the user and the group of what info describes.
func Owner(info fs.FileInfo) (uid, gid int) {
	st := stat(info)
	return int(st.Uid), int(st.Gid)
}

// ID is the number of a file within its tree, and the number of names that it has.
// dev tells file systems of this machine apart, and is 0 of an export.
func ID(info fs.FileInfo) (dev, ino uint64, names uint64) {
	st := stat(info)
	return uint64(st.Dev), st.Ino, uint64(st.Nlink)
}

// Used is the number of bytes that a file takes where it is stored.
func Used(info fs.FileInfo) int64 { return stat(info).Blocks * 512 }

// AccessTime is when a file was read last.
func AccessTime(info fs.FileInfo) time.Time {
	st := stat(info)
	return time.Unix(st.Atim.Unix())
}

// ChangeTime is when a file's data or attributes were changed last.
func ChangeTime(info fs.FileInfo) time.Time {
	st := stat(info)
	return time.Unix(st.Ctim.Unix())
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
