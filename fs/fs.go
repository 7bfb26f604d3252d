package fs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
)

// Config says how to mount.
type Config struct {
	// Source is shown in the first column of df, "server:/export".
	Source string
	// ReadOnly, AllowOther: as in mount(8) and fuse(8).
	ReadOnly, AllowOther bool
	// Options are further ones for fusermount3 or mount(2): "nosuid", …
	Options []string
	// MaxIO bounds one FUSE read or write in bytes; 0 means 1 MiB.
	MaxIO int
	// ReadAheadKiB, when positive, is what the kernel's own read-ahead is
	// raised to where we may (root).
	ReadAheadKiB int
	// Debug logs every request.
	Debug bool
}

// FS serves one mount.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS to what we do not have

	cache  *cache.Cache
	cfg    Config
	nodes  *nodes
	files  handles[*cache.File]
	dirs   handles[*cache.Dir]
	creds  credCache
	again  reopens
	watch  watch
	kernel *Kernel
	server *fuse.Server

	// dir is where it was mounted, device its number in the mount table.
	dir, device string

	// ctx lives as long as requests may wait; abort ends it.
	ctx   context.Context
	abort context.CancelFunc
}

// maxBackground is how many asynchronous requests the kernel may have under
// way. Its default, 12, starves read-ahead over a network.
const maxBackground = 128

// maxRequestBytes bounds the memory of requests under way: each WRITE has a
// buffer of MaxIO until it is answered. The rest waits in the kernel, unread.
const maxRequestBytes = 256 << 20

// Mount attaches c at dir and starts to serve it. It returns when the mount is
// usable. The FS does not own c.
func Mount(c *cache.Cache, k *Kernel, dir string, cfg Config) (*FS, error) {
	if cfg.MaxIO == 0 {
		cfg.MaxIO = 1 << 20
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	ctx, abort := context.WithCancel(context.Background())
	f := &FS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		cache:         c,
		cfg:           cfg,
		nodes:         newNodes(c),
		kernel:        k,
		dir:           dir,
		ctx:           ctx,
		abort:         abort,
	}
	opts := &fuse.MountOptions{
		AllowOther:               cfg.AllowOther,
		MaxBackground:            maxBackground,
		MaxInflightRequestBytes:  maxRequestBytes,
		MaxWrite:                 cfg.MaxIO,
		MaxReadAhead:             cfg.MaxIO,
		FsName:                   cfg.Source,
		Name:                     "rdmafs",
		DisableXAttrs:            true,
		DisableSplice:            true, // ReadResult.Done cannot be relied upon with it
		ExplicitDataCacheControl: true,
		ExtraCapabilities:        fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_ASYNC_DIO | fuse.CAP_READDIRPLUS_AUTO,
		Debug:                    cfg.Debug,
	}
	words := slices.Clone(cfg.Options)
	if cfg.ReadOnly {
		words = append(words, "ro")
	}
	directMount(opts, words)
	f.watch.start(ctx, beingKilled)
	f.server, err = fuse.NewServer(f, dir, opts)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		helperMount(opts, words)
		f.server, err = fuse.NewServer(f, dir, opts)
	}
	if err != nil {
		abort()
		f.watch.joined.Wait()
		return nil, fmt.Errorf("FUSE mount on %s: %w", dir, err)
	}
	go f.server.Serve()
	if err := f.server.WaitMount(); err != nil {
		abort()
		f.watch.joined.Wait()
		return nil, fmt.Errorf("FUSE mount on %s: %w", dir, err)
	}
	k.attach(f)
	if m, ok, err := FindMount(dir); ok && err == nil {
		f.device = m.Device
	}
	if cfg.ReadAheadKiB > 0 {
		raiseReadAhead(f.device, cfg.ReadAheadKiB)
	}
	return f, nil
}

// Wait returns when the file system has been unmounted and every request
// answered.
func (f *FS) Wait() {
	f.server.Wait()
	f.kernel.attach(nil)
	f.abort()
	f.watch.joined.Wait()
}

// Device is the mount's number in the mount table; empty if that did not show
// it.
func (f *FS) Device() string { return f.device }

// Abort makes the requests that wait for the server fail, so that a mount whose
// server is gone can be ended.
func (f *FS) Abort() { f.abort() }

func (f *FS) String() string { return "rdmafs" }

// setEntry fills an answer that gives the kernel one more lookup of e.Inode.
func (f *FS) setEntry(ctx *opContext, h *fuse.InHeader, dir *cache.Inode, e cache.Entry, out *fuse.EntryOut) {
	out.NodeId = f.nodes.take(e.Inode)
	out.SetEntryTimeout(f.entryTTL(ctx, h, dir, e.EntryTTL))
	out.SetAttrTimeout(e.AttrTTL)
	setAttr(&out.Attr, e.Inode.Ino(), &e.Attr)
	e.Inode.Told(ctx.asked)
}

// entryTTL is how long the kernel may walk through a name without asking. Where
// several users share the mount, a directory that not everybody may search
// must be asked for each time, since only we know whom the server admits.
func (f *FS) entryTTL(ctx context.Context, h *fuse.InHeader, dir *cache.Inode, ttl time.Duration) time.Duration {
	if !f.cfg.AllowOther || ttl == 0 {
		return ttl
	}
	a, _, err := f.cache.GetAttr(ctx, f.creds.of(h), dir)
	if err != nil || a.Mode&0o111 != 0o111 {
		return 0
	}
	return ttl
}
