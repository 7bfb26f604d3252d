package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Cache is one mount's cache. It borrows client and pool until Close.
type Cache struct {
	cl   nfsclient.Client
	asks revalidator    // cl, or with Config.SoftReval a way to it that gives up
	acls nfsclient.ACLs // cl, if the server has access control lists
	// cl, if the protocol has them; the server, or a file system of its, may not.
	xattrs nfsclient.Xattrs
	// nfs4acls is nil without such lists.
	nfs4acls nfsclient.NFS4ACLs
	ranges   nfsclient.Ranges
	pool     *bufpool.Pool
	cfg      Config
	root     *Inode
	// wbConfig is of every file's write-back.
	wbConfig writeback.Config
	fsid     uint64 // of root
	// maxSize is how large a file may become.
	maxSize int64
	seed    maphash.Seed
	// instance is a number that no other cache has.
	instance uint64

	// gen orders what happens here: replies by when their calls were sent,
	// attributes by when they were taken over.
	gen atomic.Uint64
	// staleGen is when a handle was last found stale.
	staleGen atomic.Uint64
	// foreign is when another client was last seen to have changed something.
	foreign atomic.Uint64

	born      time.Time     // when New was called
	lateClose time.Duration // the constant, but in tests

	// life bounds the calls of background goroutines; Close ends it.
	life  context.Context
	end   context.CancelFunc
	wg    sync.WaitGroup
	flush chan struct{} // capacity 1: memory is short, the flusher sends all it can

	// buffered is the bytes in buffers of data that is not stable yet;
	// waiting counts the writers that wait for it to fall.
	buffered atomic.Int64
	waiting  atomic.Int64
	opens    atomic.Int64 // open files
	listed   atomic.Int64 // entries that open directories hold
	// unreliable: the log says that COMMITs do not match.
	unreliable atomic.Bool

	counts counters

	policy   atomic.Pointer[policy]
	altering writers
	polls    polls
	repoll   chan struct{} // capacity 1: the policy has changed
	locks    fileLocks

	mu      sync.Mutex
	ended   bool                   // no goroutine may be started any more
	handles table[Inode, byHandle] // the inode of each handle
	numbers table[Inode, byNumber] // all inodes
	opened  map[*Inode]struct{}    // with open files, which pin them
	dirty   map[*Inode]struct{}    // whose write-back is not empty; each is pinned
	lost    map[*Inode]*loss       // of which no program was told
	// places are of files with data, or open, whose names were let go of.
	places map[*Inode]place
	// lostMore counts the losses beyond maxLost.
	lostMore int
	queue    []*Inode // want a background writer, and found all busy; pinned
	writers  int      // background WRITEs under way
	names    nameQueue
	sillies  map[*Inode]*silly
	relists  map[*Inode]*relist // of directories that are not pinned for it
	sillyNo  uint32             // the last name of the kind, of this cache
	room     chan struct{}      // closed and replaced when buffered falls
	notices  []notice
	noticed  chan struct{} // capacity 1: there are notices
}

// maxWriters bounds the background WRITEs of all files, maxShare those of one: a
// file that the server does not answer for leaves the rest to others.
const (
	maxWriters = 32
	maxShare   = maxWriters * 3 / 4
)

// New makes the cache of the export that cl has mounted.
func New(cl nfsclient.Client, pool *bufpool.Pool, cfg Config) (*Cache, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	info := cl.Info()
	cut := func(n, most int) int {
		if most > 0 {
			n = min(n, most)
		}
		return min(n, bufpool.MaxSize)
	}
	cfg.RSize, cfg.WSize = cut(cfg.RSize, info.ReadMax), cut(cfg.WSize, info.WriteMax)
	if half := pool.Limit() / 2; cfg.MaxDirty == 0 || cfg.MaxDirty > half {
		cfg.MaxDirty = half
	}
	if cfg.WriteDelay == 0 {
		cfg.WriteDelay = 3 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Cache{
		cl: cl, asks: cl, pool: pool, cfg: cfg, lateClose: lateClose, seed: maphash.MakeSeed(), instance: rand.Uint64(),
		flush: make(chan struct{}, 1), room: make(chan struct{}), noticed: make(chan struct{}, 1),
		opened: map[*Inode]struct{}{},
		dirty:  map[*Inode]struct{}{}, lost: map[*Inode]*loss{}, places: map[*Inode]place{}, sillies: map[*Inode]*silly{},
		polls: polls{files: map[*Inode]*poll{}}, repoll: make(chan struct{}, 1), altering: writers{none: make(chan struct{}, 1)},
	}
	if cfg.SoftReval != nil {
		c.asks = &softly{cl, cfg.SoftReval}
	}
	c.policy.Store(policyOf(cfg.times(), cfg.ReadAhead))
	c.altering.barred.Store(cfg.ReadOnly)
	c.wbConfig = writeback.Config{Block: cfg.WSize, Share: maxShare, MaxDirty: cfg.MaxDirty, Delay: cfg.WriteDelay}
	c.maxSize = maxOffset
	if m := info.MaxFileSize; m > 0 && m < uint64(maxOffset) {
		c.maxSize = int64(m)
	}
	c.born = cfg.Now()
	c.life, c.end = context.WithCancel(context.Background())
	st := c.stamp()
	h, a := cl.Root()
	if a.Type != nfsclient.Directory {
		return nil, fmt.Errorf("cache: the export's root is no directory: %w", ErrServer)
	}
	if c.cl.Info().ACLs {
		c.acls, _ = c.cl.(nfsclient.ACLs)
	}
	if c.cl.Info().NFS4ACLs {
		c.nfs4acls, _ = c.cl.(nfsclient.NFS4ACLs)
	}
	if c.cl.Info().Version != "4.1" { // whose client is that of 4.2
		c.xattrs, _ = cl.(nfsclient.Xattrs)
		c.ranges, _ = cl.(nfsclient.Ranges)
	}
	c.fsid = a.FSID
	c.root = c.intern(h, &a)
	c.root.mu.Lock()
	c.root.note(st, &a)
	c.root.mu.Unlock()
	cl.Watch(c)
	if r, ok := cl.(nfsclient.Rerooter); ok {
		r.WatchRoot(c.rerooted)
	}
	pool.SetPressure(c.underPressure)
	c.spawn(func() { c.runFlusher(c.life) })
	if cfg.Kernel != nil {
		c.spawn(func() { c.runNotices(c.life) })
		c.spawn(func() { c.runPoll(c.life) })
	}
	return c, nil
}

// Root is the export's root; the cache keeps it until Close.
func (c *Cache) Root() *Inode { return c.root }

// spawn starts f on a goroutine that Close joins, unless Close is past that.
func (c *Cache) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.wg.Go(f)
	return true
}

// spawnJoined is spawn for what calls c.wg.Done itself.
func (c *Cache) spawnJoined(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.wg.Add(1)
	go f()
	return true
}

// Sync writes and commits everything written before it, and removes files that
// were kept only for being open, though they be open. Once ctx ends it gives up
// on calls under way. The error says whether data was lost.
func (c *Cache) Sync(ctx context.Context) error {
	var errs []error
	for _, i := range c.dirtyInodes() {
		if err := i.sync(ctx); err != nil {
			errs = append(errs, fmt.Errorf("cache: flush of %s: %w", c.path(i), err))
		}
		i.unpin()
	}
	c.nameLosses()
	c.removeSillies(ctx)
	return errors.Join(append(errs, c.takeLost()...)...)
}

// Close is Sync, and joins all background work. The error says whether data was
// lost that no Flush or Fsync has reported. No other method may be called
// during or after Close, except Forget and Release.
func (c *Cache) Close(ctx context.Context) error {
	var errs []error
	c.cl.Watch(nil)
	if r, ok := c.cl.(nfsclient.Rerooter); ok {
		r.WatchRoot(nil)
	}
	if err := c.Sync(ctx); err != nil {
		errs = append(errs, err)
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.end()
	c.wg.Wait()
	c.pool.SetPressure(nil)
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, i := range queue {
		i.unpin()
	}
	c.dropReadAhead()
	dirty := c.dirtyInodes()
	c.mu.Lock()
	paths := c.paths(dirty...)
	c.mu.Unlock()
	for k, i := range dirty {
		i.mu.Lock()
		if n := i.wb.Abandon(); n > 0 {
			errs = append(errs, fmt.Errorf("cache: %d bytes of %s not written: %w", n, paths[k], ErrClosed))
		}
		i.pump()
		i.mu.Unlock()
		i.unpin()
	}
	return errors.Join(append(errs, c.takeLost()...)...)
}

// dirtyInodes are the inodes with data that is not stable yet, each pinned for the
// caller.
func (c *Cache) dirtyInodes() []*Inode {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Inode, 0, len(c.dirty))
	for i := range c.dirty {
		i.refs.Add(1)
		all = append(all, i)
	}
	return all
}

// StatFS is the state of the file system that i is in; it is not cached.
func (c *Cache) StatFS(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.StatFS, error) {
	return c.cl.StatFS(ctx, cr, i.h)
}
