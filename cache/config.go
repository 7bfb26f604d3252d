package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Config is a mount's caching policy.
type Config struct {
	// RSize and WSize bound one READ and one WRITE, in bytes. They are cut to
	// what the server takes and to bufpool.MaxSize.
	RSize, WSize int
	// AcRegMin to AcDirMax are acregmin to acdirmax of nfs(5): how long attributes
	// are fresh, until Cache.SetTimes. All are ignored with NoAC.
	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration
	// NoAC never uses cached attributes or names, and writes through.
	NoAC bool
	// NoCTO opens a file by rights and attributes that are fresh, without asking the
	// server whether it has changed: nocto of nfs(5).
	NoCTO bool
	// SoftReval, if set, is softreval of nfs(5): it gives a call that revalidates a name, attributes or rights
	// the context whose end is that of its time, after which they are used as they were.
	SoftReval func(context.Context) (context.Context, context.CancelFunc)
	// Names says which names are cached.
	Names Names
	// ReadOnly refuses changes, until Cache.SetReadWrite.
	ReadOnly bool
	// ReadAhead bounds an open file's read-ahead window, in bytes; 0: none.
	ReadAhead int
	// MaxDirty bounds the bytes of all files that no COMMIT has covered yet. It
	// is cut to half the pool's limit, so that writers never starve readers;
	// 0 means that half.
	MaxDirty int
	// WriteDelay is how long a partly filled buffer waits for more before it
	// is sent; 0 means 3 s.
	WriteDelay time.Duration
	// Subjects gives the calls of background goroutines a transport.Subject, the path of the
	// file; it costs an allocation each.
	Subjects bool
	// Kernel may be nil.
	Kernel Kernel
	// Log may be nil. It gets what no caller can be told: data lost in the
	// background, files that could not be cleaned up.
	Log *slog.Logger
	// Now may be nil: time.Now.
	Now func() time.Time
}

// Names says which names are cached, as lookupcache= of nfs(5).
type Names uint8

const (
	AllNames      Names = iota // those that exist, and those that do not
	ExistingNames              // that a name does not exist is asked anew each time
	NoNames
)

// Kernel sends notifications to the kernel. The cache calls it on goroutines of its
// own and with no lock held, so that an implementation may wait for requests that are
// being served. It must return once the mount is gone.
type Kernel interface {
	// InvalidateInode: data and attributes of ino are not current.
	InvalidateInode(ino *Inode)
	// InvalidateEntry: what name in dir stands for is not current.
	InvalidateEntry(dir *Inode, name string)
}

// OpenMode is how a file is opened.
type OpenMode struct {
	Read, Write bool
	// Execute: the file is opened to be run. Who may execute a file may have
	// it read for that, without the right to read.
	Execute bool
	// Truncate cuts the file to nothing.
	Truncate bool
	// Sync makes each Write durable before it returns (O_SYNC, O_DSYNC).
	Sync bool
	// Direct goes past read-ahead and write-behind (O_DIRECT).
	Direct bool
}

// Entry is the result of a lookup. It carries one reference on Inode, which Forget
// drops, and how long the kernel may cache attributes and name.
type Entry struct {
	Inode             *Inode
	Attr              nfsclient.Attr
	AttrTTL, EntryTTL time.Duration
}

// Dirent is an entry of a directory. Type is 0 when it is not known. Off is
// where Dir.Next goes on after this entry.
type Dirent struct {
	Ino  uint64
	Type nfsclient.FileType
	Name string
	Off  uint64
}

var (
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("cache: closed")
	// ErrBusy: the name belongs to a file that is removed once it is closed
	// (EBUSY).
	ErrBusy = fmt.Errorf("cache: file is in use: %w", syscall.EBUSY)
	// ErrBadMode: the file was not opened for this (EBADF).
	ErrBadMode = fmt.Errorf("cache: file not opened for this: %w", syscall.EBADF)
	// ErrServer: the server's answer makes no sense (EIO).
	ErrServer = errors.New("cache: nonsense from the server")
)

func localError(op string, s nfsclient.Status) error { return &nfsclient.Error{Op: op, Status: s} }

func (cfg *Config) check() error {
	switch {
	case cfg.RSize <= 0 || cfg.WSize <= 0:
		return fmt.Errorf("cache: rsize %d, wsize %d: must be positive", cfg.RSize, cfg.WSize)
	case cfg.ReadAhead < 0 || cfg.MaxDirty < 0 || cfg.WriteDelay < 0:
		return fmt.Errorf("cache: negative read-ahead, dirty limit or write delay")
	}
	t := cfg.times()
	return t.check()
}

func (cfg *Config) times() Times {
	return Times{cfg.AcRegMin, cfg.AcRegMax, cfg.AcDirMin, cfg.AcDirMax, cfg.NoAC}
}
