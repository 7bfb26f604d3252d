package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// Config says how to mount.
type Config struct {
	// Source is shown in the first column of df, "server:/export".
	Source string
	// ReadOnly, AllowOther: as in mount(8) and fuse(8).
	ReadOnly, AllowOther bool
	// DefaultPermissions has the kernel check mode bits itself, as in fuse(8).
	DefaultPermissions bool
	// PosixLocks and Flocks have the locks of fcntl(2) and flock(2) taken at the server.
	// Otherwise the kernel keeps them, for this mount alone.
	PosixLocks, Flocks bool
	// Options are further ones for fusermount3 or mount(2): "nosuid", …
	Options []string
	// MaxNodes bounds the inodes that the kernel knows but that are not in use, if the
	// kernel can be asked to forget some (Linux 6.18); 0 means 500,000.
	MaxNodes int
	// MaxIO bounds one FUSE read or write in bytes; 0 means 1 MiB.
	MaxIO int
	// ReadAheadKiB, when positive, is what the kernel's own read-ahead is
	// raised to where we may (root).
	ReadAheadKiB int
	// Over is how requests come from the kernel: OverDevice or OverRing; "" is
	// OverDevice.
	Over string
	// Log may be nil. It is told once of what the mount cannot do.
	Log *slog.Logger
	// Debug logs every request.
	Debug bool
	// Device, if set, is a descriptor of /dev/fuse that another process has mounted. Mount takes
	// it in place of mounting; who has mounted it has chosen its options, and may let any user in.
	Device *os.File
	// AutoUnmount has fusermount3 unmount when this process ends without having done so.
	AutoUnmount bool
}

// FS serves one mount.
type FS struct {
	fuse.RawFileSystem // replies ENOSYS to operations that we do not have

	cache      *cache.Cache
	cfg        Config
	nodes      *nodes
	files      handles[*cache.File]
	dirs       handles[*cache.Dir]
	creds      creds
	reopens    reopens
	mountPaths mountPaths
	watch      watch
	requests   requestCounts
	use        use
	pruner     sync.WaitGroup
	kernel     *Kernel
	server     server
	over       string // see Over

	// device is the connection's descriptor; beside the server only Kernel writes
	// to it. expires: the kernel can end the validity of a name.
	device  *os.File
	expires bool
	// guard unmounts should this process end first; nil without Config.AutoUnmount.
	guard *guard

	// dir is where it was mounted, number the device number in the mount table, nil where that does not
	// show it. Requests come by io_uring before it is known.
	dir    string
	number atomic.Pointer[string]
	// generation tells handles of name_to_handle_at(2) of this mount from those of others. The
	// root's is 0 for the kernel.
	generation uint64
	// flags are the kernel's, of mount(2); of Remount.
	flags uintptr

	invalidating  chan struct{} // a token for each direct write in invalidateWritten
	invalidations sync.WaitGroup

	// ctx lives as long as requests may wait; abort ends it.
	ctx   context.Context
	abort context.CancelFunc
}

// maxBackground is how many asynchronous requests the kernel may have outstanding.
// Its default, 12, starves read-ahead over a network.
const maxBackground = 128

// capabilities are those we ask for besides go-fuse's own. With
// DIRECT_IO_ALLOW_MMAP, since Linux 6.6, a file opened with O_DIRECT can be mapped
// shared: the kernel writes stored pages back before direct I/O. With HANDLE_KILLPRIV
// the server takes suid and sgid away from what is written, cut or given away, as NFS
// servers do; else the kernel asks for the mode before each chown and truncate, and
// changes it itself. Targets of symbolic links are kept: they change with the link's
// name only, or with a handle that is used again, which the cache notices. Every part of
// a listing is a READDIRPLUS, not as the kernel would have it the first one (READDIRPLUS_AUTO):
// what the server has said of the files is here in any case, and to ask for each costs far
// more than to have told it.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_ASYNC_DIO | fuse.CAP_DIRECT_IO_ALLOW_MMAP |
	fuse.CAP_HANDLE_KILLPRIV | fuse.CAP_CACHE_SYMLINKS | fuse.CAP_EXPORT_SUPPORT

// xattrCapabilities are asked for where files can have extended attributes. With HANDLE_KILLPRIV_V2 the kernel
// remembers that a file has no security.capability until it is given attributes again; else it
// would ask before each write.
const xattrCapabilities = fuse.CAP_HANDLE_KILLPRIV_V2

// maxRequestBytes bounds the memory of outstanding requests: each WRITE has a
// buffer of MaxIO until the reply. The rest stays in the kernel, unread.
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
	if cfg.Device != nil {
		cfg.AllowOther, cfg.DefaultPermissions = true, false
	}
	f, stop := newFS(c, k, cfg)
	f.dir = dir
	if err := f.mount(); err != nil {
		stop()
		return nil, fmt.Errorf("FUSE mount on %s: %w", dir, err)
	}
	if cfg.Device != nil {
		f.findGiven()
	} else if m, ok, err := mounttable.Find(dir); ok && err == nil {
		f.number.Store(&m.Device)
	}
	go f.server.Serve()
	// A mount of another process need not be where this one can open files on it.
	if err := settlePoll(f.dir); err != nil && cfg.Device == nil {
		stop()
		return nil, fmt.Errorf("FUSE mount on %s: %w", dir, err)
	}
	f.pruner.Go(func() { f.runPrune(f.ctx) })
	k.attach(f)
	if cfg.ReadAheadKiB > 0 {
		raiseReadAhead(f.Device(), cfg.ReadAheadKiB)
	}
	return f, nil
}

// mount mounts, and has go-fuse negotiate capabilities with the kernel.
func (f *FS) mount() error {
	maxIO := min(f.cfg.MaxIO, maxKernelIO())
	plan := f.plan(f.cfg.ReadOnly, f.cfg.Options)
	plan.maxRead = maxIO
	f.flags, _ = plan.directOptions()
	extra := uint64(capabilities) | f.cfg.lockCapabilities()
	if !f.lacksXattrs() {
		extra |= xattrCapabilities
	}
	if f.cache.ACLs() || f.cache.Umask() {
		extra |= fuse.CAP_DONT_MASK
	}
	return f.mountServer(&plan, &fuse.MountOptions{
		MaxBackground:            maxBackground,
		MaxInflightRequestBytes:  maxRequestBytes,
		MaxWrite:                 maxIO,
		MaxReadAhead:             f.cfg.MaxIO,
		Name:                     fuseSubtype,
		DisableXAttrs:            f.lacksXattrs(),
		DisableSplice:            true, // ReadResult.Done cannot be relied upon with it
		ExplicitDataCacheControl: true,
		ExtraCapabilities:        extra,
		Debug:                    f.cfg.Debug,
	})
}

// settle takes what the kernel can do, before requests are served.
func (f *FS) settle(kernel *fuse.InitIn) {
	if kernel.SupportsNotify(fuse.NOTIFY_PRUNE) {
		f.nodes.setLimit(cmp.Or(f.cfg.MaxNodes, defaultMaxNodes))
	}
	f.expires = kernel.Flags64()&fuse.CAP_HAS_EXPIRE_ONLY != 0
}

// newFS makes a file system that is not mounted, and a function that ends it.
func newFS(c *cache.Cache, k *Kernel, cfg Config) (f *FS, stop func()) {
	f = &FS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		cache:         c,
		cfg:           cfg,
		creds:         creds{log: cfg.Log},
		nodes:         newNodes(c),
		kernel:        k,
		generation:    uint64(rand.Uint32() | 1),
		invalidating:  make(chan struct{}, maxInvalidating),
	}
	f.ctx, f.abort = context.WithCancel(context.Background())
	f.watch.start(f.ctx, checkThread)
	return f, func() {
		f.abort()
		f.watch.joined.Wait()
	}
}

// Wait returns when the file system has been unmounted and every request has its
// reply.
func (f *FS) Wait() {
	f.server.Wait()
	f.invalidations.Wait()
	f.kernel.attach(nil)
	f.device.Close()
	f.guard.end()
	f.abort()
	f.pruner.Wait()
	f.watch.joined.Wait()
	f.mountPaths.close()
	f.creds.open.close()
}

// Device is the mount's number in the mount table; empty if that did not show
// it.
func (f *FS) Device() string {
	if n := f.number.Load(); n != nil {
		return *n
	}
	return ""
}

// Place is where this very mount can be unmounted, which need not be where it
// was mounted. A device number is a mount's own for as long as anybody uses it.
// Errors are mounttable.ErrDetached, if it was unmounted already, and ErrCovered.
func (f *FS) Place() (dir string, err error) {
	if f.Device() == "" {
		if f.cfg.Device != nil {
			return "", mounttable.ErrDetached // as far as this process can do anything about it
		}
		return "", errors.New("the mount table did not show it")
	}
	all, err := mounttable.Read()
	if err != nil {
		return "", err
	}
	return mounttable.Locate(f.Device(), f.dir, all)
}

// Abort makes requests that wait for the server fail, so that a mount whose server
// is gone can be ended.
func (f *FS) Abort() { f.abort() }

func (f *FS) String() string { return "rdmafs" }

// setEntry fills a reply that gives the kernel one more lookup of e.Inode.
func (f *FS) setEntry(ctx *opContext, e cache.Entry, out *fuse.EntryOut) {
	out.NodeId = f.nodes.take(e.Inode)
	if out.NodeId != fuse.FUSE_ROOT_ID {
		out.Generation = f.generation
	}
	out.SetEntryTimeout(f.entryTTL(e.EntryTTL))
	out.SetAttrTimeout(e.AttrTTL)
	setAttr(&out.Attr, e.Inode.Ino(), &e.Attr)
	e.Inode.Told(ctx.asked)
}

// entryTTL is how long the kernel may use a name without a lookup. Meanwhile it
// lets every user through, wherever the name is moved and however the directory's
// mode changes. If several users share the mount and the kernel does not check
// modes, it therefore has to look up each step of a path, for the user who walks it;
// the cache knows the users' rights. The same goes for a kernel that cannot be told
// that a name is no longer valid.
func (f *FS) entryTTL(ttl time.Duration) time.Duration {
	if !f.expires || f.cfg.judges() {
		return 0
	}
	return ttl
}

// judges reports whether several users share the mount and the kernel does not check
// modes: each request is then judged here and by the server, for the user who makes it.
func (c *Config) judges() bool { return c.AllowOther && !c.DefaultPermissions }
