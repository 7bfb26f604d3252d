package vfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Config says what a tree is.
type Config struct {
	// Dir is the directory exported.
	Dir string
	// ID identifies the tree; it is part of every handle and must be the same
	// after a restart.
	ID uint32
	// ReadOnly refuses every change.
	ReadOnly bool
	// Async lets changes of names and attributes be answered before they are
	// on stable storage. Data is not affected.
	Async bool
	// Lossy keeps unstable writes in memory until they are committed, so that
	// Forget loses what a crash might have lost. LossyMax bounds them in
	// bytes; beyond, writes are stable. 0 means 256 MiB.
	Lossy    bool
	LossyMax int64
	// MaxOpen bounds the cached files, each of which has one to three
	// descriptors. 0 chooses by RLIMIT_NOFILE.
	MaxOpen int
	// InodeHandles refuses kernel handles.
	InodeHandles bool
	// SyncFault, when not nil, is called before each fsync of a file; its error
	// replaces the fsync.
	SyncFault func() error
	// WriteFault, when not nil, is called before each write of n bytes to a file;
	// nothing is written when it returns an error.
	WriteFault func(n int) error
	// SyncFailed, when not nil, is called when the fsync of a file has failed,
	// before any later one of that file can succeed.
	SyncFailed func()
}

// SyncError is a failed fsync: written data may be lost.
type SyncError struct{ Err error }

func (e *SyncError) Error() string { return "fsync: " + e.Err.Error() }
func (e *SyncError) Unwrap() error { return e.Err }

// Tree is an exported directory tree. Its methods may be called from any
// goroutine.
type Tree struct {
	cfg    Config
	root   *Node
	rootID inode
	mount  uint64 // mount id of the root
	mac    macKey
	kernel bool // handles are kernel handles
	priv   bool // system calls are made as the caller
	birth  bool // time of birth serves as generation
	euid   uint32
	umask  uint32
	nodes  table
	index  index

	walkMu sync.Mutex
	missed map[inode]int64 // failed walks, by when; guarded by walkMu

	pending  atomic.Int64 // bytes of unstable writes in memory
	stop     context.CancelFunc
	janitors sync.WaitGroup
}

// secretName is the extended attribute that keeps the key of kernel handles.
const secretName = "trusted.rdmafs.nfsd.key"

const overlayMagic = 0x794c7630

// New opens a tree. The caller closes it.
func New(cfg Config) (*Tree, error) {
	if cfg.LossyMax == 0 {
		cfg.LossyMax = 256 << 20
	}
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = defaultOpen()
	}
	t := &Tree{cfg: cfg, euid: uint32(os.Geteuid()), priv: canAssume(), missed: map[inode]int64{}}
	t.nodes.init(cfg.MaxOpen)
	t.index.init()
	rd, err := unix.Open(cfg.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", cfg.Dir, err)
	}
	fd, err := reopen(rd, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		closeFD(rd)
		return nil, fmt.Errorf("export %s: open through /proc: %w", cfg.Dir, err)
	}
	var st Stat
	if err := t.setup(rd, fd, &st); err != nil {
		closeFD(rd)
		closeFD(fd)
		return nil, fmt.Errorf("export %s: %w", cfg.Dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.janitors.Add(1)
	go t.runJanitor(ctx)
	return t, nil
}

func (t *Tree) setup(rd, fd int, st *Stat) error {
	if err := statFD(fd, st); err != nil {
		return fmt.Errorf("statx: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(rd, &fs); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	// A file of an overlay is born again when it is copied up.
	t.birth = fs.Type != overlayMagic
	t.mount = st.Mnt_id
	t.rootID = t.inodeOf(st)
	t.umask = processUmask()
	key := t.derivedKey(st)
	if !t.cfg.InodeHandles && t.canOpenHandles(rd) {
		if secret, err := storedSecret(rd); err == nil {
			t.kernel, key = true, secret
		}
	}
	t.mac = newMacKey(key)
	h, err := t.handleOf(fd, st)
	if err != nil {
		return fmt.Errorf("handle of the root: %w", err)
	}
	n := newNode(h, fd, st)
	n.rdFD.Store(int32(rd))
	t.root = t.nodes.add(n) // this reference is held until Close
	return nil
}

// canOpenHandles reports whether the root can be opened by a handle.
func (t *Tree) canOpenHandles(rd int) bool {
	var h rawHandle
	mount, err := handleAt(rd, &emptyPath[0], &h)
	if err != nil || h.n > maxKernel || uint64(mount) != t.mount {
		return false
	}
	fd, err := openHandle(rd, &h, unix.O_PATH|unix.O_CLOEXEC)
	closeFD(fd)
	return err == nil
}

// derivedKey is a key that comes out the same after a restart. It guards
// against damage and confusion, not against forgery, which inode handles need
// not fear.
func (t *Tree) derivedKey(st *Stat) (k [16]byte) {
	seed := macKey{st.Ino, uint64(st.Dev_major)<<32 | uint64(st.Dev_minor)}
	for i := range 2 {
		v := seed.sum([]byte{byte(i), byte(t.cfg.ID >> 24), byte(t.cfg.ID >> 16), byte(t.cfg.ID >> 8), byte(t.cfg.ID)})
		for j := range 8 {
			k[8*i+j] = byte(v >> (8 * j))
		}
	}
	return k
}

// storedSecret reads the root's secret, or makes one.
func storedSecret(rd int) (k [16]byte, err error) {
	for range 2 {
		n, err := unix.Fgetxattr(rd, secretName, k[:])
		if err == nil && n == len(k) {
			return k, nil
		}
		if err == nil || !errors.Is(err, unix.ENODATA) {
			return k, unix.EINVAL
		}
		if _, err := rand.Read(k[:]); err != nil {
			return k, err
		}
		if err := unix.Fsetxattr(rd, secretName, k[:], unix.XATTR_CREATE); err != nil && err != unix.EEXIST {
			return k, err
		}
	}
	return k, unix.EIO
}

// defaultOpen leaves most descriptors to others.
func defaultOpen() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 256
	}
	return int(min(max(l.Cur/8, 64), 8192))
}

// processUmask reads the umask without changing it.
func processUmask() uint32 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0o777 // then every mode is set explicitly
	}
	var mask uint32
	for line := range splitLines(b) {
		if _, err := fmt.Sscanf(line, "Umask: %o", &mask); err == nil {
			return mask
		}
	}
	return 0o777
}

// Kernel reports whether handles are the kernel's.
func (t *Tree) Kernel() bool { return t.kernel }

// Root is the tree's root directory. The reference is the tree's own.
func (t *Tree) Root() *Node { return t.root }

// Close applies the unstable writes that lossy mode still holds, and closes
// every descriptor. No operation may be under way.
func (t *Tree) Close() error {
	t.stop()
	t.janitors.Wait()
	var first error
	for _, n := range t.nodes.all() {
		n.mu.Lock()
		if err := t.settle(n); err != nil && first == nil {
			first = err
		}
		n.mu.Unlock()
		t.Put(n)
	}
	t.Put(t.root)
	t.nodes.clear()
	return first
}

// ReadOnly reports whether every change is refused.
func (t *Tree) ReadOnly() bool { return t.cfg.ReadOnly }
