package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache/locks"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// lockServer is a fake server that several caches lock files at.
type lockServer struct {
	*fake

	mu    sync.Mutex
	table locks.Table // owners of all clients
	freed chan struct{}
	asked int
}

// lockClient is one cache's client of it.
type lockClient struct {
	*lockServer
	number nfsclient.LockOwner
	// waits, if not nil, is told of each WaitLock.
	waits chan nfsclient.Lock
	// before, if not nil, is called before SetLock returns.
	before func()
}

func newLockServer(t testing.TB) *lockServer {
	return &lockServer{fake: newFake(t), freed: make(chan struct{})}
}

func (s *lockServer) client(n int) *lockClient {
	return &lockClient{lockServer: s, number: nfsclient.LockOwner(n) << 32}
}

func (c *lockClient) set(h nfsclient.Handle, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	s := c.lockServer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	r := &locks.Request{Owner: c.number + owner, Lock: l}
	if s.table.Submit(h, r); r.State == locks.Refused {
		return nfsclient.ErrLocked
	}
	s.table.Finish(r, true)
	close(s.freed)
	s.freed = make(chan struct{})
	return nil
}

func (c *lockClient) SetLock(ctx context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	err := c.set(h, owner, l)
	if c.before != nil {
		c.before()
	}
	return err
}

func (c *lockClient) WaitLock(ctx context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	if c.waits != nil {
		c.waits <- l
	}
	for {
		c.lockServer.mu.Lock()
		freed := c.freed
		c.lockServer.mu.Unlock()
		if err := c.set(h, owner, l); !errors.Is(err, nfsclient.ErrLocked) {
			return err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *lockClient) TestLock(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) (*nfsclient.Lock, error) {
	c.lockServer.mu.Lock()
	defer c.lockServer.mu.Unlock()
	if held, ok := c.table.Conflicting(h, c.number+owner, l); ok {
		return &held.Lock, nil
	}
	return nil, nil
}

// held is what an owner of a client has at the server.
func (c *lockClient) held(h nfsclient.Handle, owner nfsclient.LockOwner) ranges.Set {
	c.lockServer.mu.Lock()
	defer c.lockServer.mu.Unlock()
	return c.table.Holds(h, c.number+owner)
}

func exclusive(owner nfsclient.LockOwner, wait bool) LockRequest {
	return LockRequest{Owner: owner, PID: uint32(owner), Wait: wait, Lock: nfsclient.Lock{Type: nfsclient.WriteLock, Last: math.MaxUint64}}
}

func shared(owner nfsclient.LockOwner, wait bool) LockRequest {
	r := exclusive(owner, wait)
	r.Lock.Type = nfsclient.ReadLock
	return r
}

func giveUp(owner nfsclient.LockOwner) LockRequest {
	r := exclusive(owner, false)
	r.Lock.Type = nfsclient.Unlocked
	return r
}

// increment adds one to the number that the file begins with.
func increment(t testing.TB, f *File) {
	t.Helper()
	var b [8]byte
	if n, err := f.Read(ctx, b[:], 0); err != nil || n != 0 && n != len(b) {
		t.Errorf("%d bytes, %v", n, err)
	}
	binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(b[:])+1)
	if _, err := f.Write(ctx, b[:], 0); err != nil {
		t.Error(err)
	}
}

// TestLockedCounterIsExact: increments under an exclusive lock from two mounts, three
// owners each, are all there, though attributes are believed for an hour and the
// server's clock stands still.
func TestLockedCounterIsExact(t *testing.T) {
	const mounts, owners, times = 2, 3, 40
	srv := newLockServer(t)
	srv.coarse = math.MaxInt32
	srv.foreign("a", nil)
	var wg sync.WaitGroup
	for m := range mounts {
		c := newCache(t, srv.client(m+1), testConfig())
		for o := range owners {
			f, _ := open(t, c, "a", rw)
			defer f.Release()
			wg.Go(func() {
				for range times {
					if err := f.SetLock(ctx, exclusive(nfsclient.LockOwner(o), true)); err != nil {
						t.Error(err)
						return
					}
					increment(t, f)
					if err := f.SetLock(ctx, giveUp(nfsclient.LockOwner(o))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := binary.BigEndian.Uint64(srv.content("a")); got != mounts*owners*times {
		t.Errorf("%d increments are there, of %d", got, mounts*owners*times)
	}
}

// TestLocksAreSeenAndGoWithTheOwner: two owners of a mount exclude each other without
// a call, F_GETLK names the one, and closing gives everything up at the server, after
// the data.
func TestLocksAreSeenAndGoWithTheOwner(t *testing.T) {
	srv := newLockServer(t)
	cl := srv.client(1)
	c := newCache(t, cl, testConfig())
	f := create(t, c, "a")
	g, _ := open(t, c, "a", rw)
	defer g.Release()
	h := f.Inode().Handle()
	check(t, f.SetLock(ctx, exclusive(1, false)))
	asked := srv.asked
	if err := g.SetLock(ctx, shared(2, false)); !errors.Is(err, nfsclient.ErrLocked) {
		t.Errorf("another owner: %v", err)
	}
	if held, pid, err := g.TestLock(ctx, shared(2, false)); err != nil || held == nil || held.Type != nfsclient.WriteLock || pid != 1 {
		t.Errorf("F_GETLK: %v, %d, %v", held, pid, err)
	}
	if srv.asked != asked {
		t.Errorf("%d calls for what is known here", srv.asked-asked)
	}
	write(t, f, []byte("data"), 0)
	check(t, f.Unlock(ctx, 2))
	if len(cl.held(h, 1)) == 0 {
		t.Error("another owner's close has given it up")
	}
	check(t, f.Unlock(ctx, 1))
	if len(cl.held(h, 1)) > 0 || string(srv.content("a")) != "data" {
		t.Errorf("after close: %v, %q", cl.held(h, 1), srv.content("a"))
	}
	// What no close has told of goes with the opening.
	check(t, f.SetLock(ctx, exclusive(3, false)))
	f.ReleaseLocks()
	f.Release()
	if len(cl.held(h, 3)) > 0 {
		t.Error("after the last close")
	}
	check(t, g.SetLock(ctx, exclusive(2, false)))
	g.ReleaseLocks()
	if n := c.locks.files.Load(); n != 0 || c.locks.table.Files() != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestInterruptedWait: a wait that a signal ends leaves nothing, here or at the
// server, whether it waits for an owner of this mount or of another.
func TestInterruptedWait(t *testing.T) {
	srv := newLockServer(t)
	here, there := srv.client(1), srv.client(2)
	here.waits = make(chan nfsclient.Lock, 1)
	c := newCache(t, here, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	h := f.Inode().Handle()
	check(t, there.set(h, 1, exclusive(1, false).Lock))
	first, stopFirst := context.WithCancel(ctx)
	second, stopSecond := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- f.SetLock(first, exclusive(1, true)) }()
	<-here.waits // at the server
	go func() { ended <- f.SetLock(second, exclusive(2, true)) }()
	waitFor(t, func() bool {
		c.locks.mu.Lock()
		defer c.locks.mu.Unlock()
		return c.locks.table.Waiting() == 2
	})
	stopSecond()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("behind one of this mount: %v", err)
	}
	stopFirst()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("at the server: %v", err)
	}
	check(t, there.set(h, 1, giveUp(1).Lock))
	check(t, f.SetLock(ctx, exclusive(3, false)))
	check(t, f.SetLock(ctx, giveUp(3)))
}

// TestLostLock: who has lost a lock reads and writes no more until it is given up.
func TestLostLock(t *testing.T) {
	srv := newLockServer(t)
	c := newCache(t, srv.client(1), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	g, _ := open(t, c, "a", rw)
	defer g.Release()
	check(t, f.SetLock(ctx, exclusive(1, false)))
	write(t, f, []byte("data"), 0)
	srv.watcher.Lost(f.Inode().Handle(), nil, errors.New("reclaimed by another"))
	var b [4]byte
	if _, err := f.Read(ctx, b[:], 0); !errors.Is(err, ErrLockLost) {
		t.Errorf("read: %v", err)
	}
	if _, err := f.Write(ctx, b[:], 0); !errors.Is(err, ErrLockLost) {
		t.Errorf("write: %v", err)
	}
	if err := f.Fsync(ctx); !errors.Is(err, ErrLockLost) {
		t.Errorf("fsync: %v", err)
	}
	if string(read(t, g, 4, 0)) != "data" {
		t.Error("another opening")
	}
	check(t, f.SetLock(ctx, giveUp(1)))
	write(t, f, []byte("more"), 0)
	check(t, f.Fsync(ctx))
	srv.watcher.Lost(f.Inode().Handle(), nil, errors.New("late"))
	write(t, f, []byte("more"), 0)
	check(t, f.Fsync(ctx))
	f.ReleaseLocks()
}

// TestLostLockOfOneOwner: other owners of locks in the file read and write on. An opening
// that two owners share, as after fork(2), serves none until the one that has lost its
// lock gives it up.
func TestLostLockOfOneOwner(t *testing.T) {
	srv := newLockServer(t)
	c := newCache(t, srv.client(1), testConfig())
	first := create(t, c, "a")
	second, _ := open(t, c, "a", rw)
	both, _ := open(t, c, "a", rw)
	h := first.Inode().Handle()
	for owner, f := range map[nfsclient.LockOwner]*File{1: first, 2: second} {
		defer f.Release()
		defer f.ReleaseLocks()
		r := shared(owner, false)
		check(t, f.SetLock(ctx, r))
		check(t, both.SetLock(ctx, r))
	}
	defer both.Release()
	defer both.ReleaseLocks()
	serves := func(when string, f *File, want bool) {
		t.Helper()
		_, err := f.Write(ctx, []byte("data"), 0)
		if want && err != nil || !want && !errors.Is(err, ErrLockLost) {
			t.Errorf("%s: write: %v", when, err)
		}
	}
	owner := nfsclient.LockOwner(1)
	c.locks.mu.Lock()
	delete(c.locks.known, h) // as many other files do that are locked
	c.locks.mu.Unlock()
	srv.watcher.Lost(h, &owner, errors.New("reclaimed by another"))
	serves("the owner's", first, false)
	serves("another owner's", second, true)
	serves("shared", both, false)
	check(t, second.SetLock(ctx, giveUp(2)))
	serves("shared, and the other owner has given up", both, false)
	check(t, first.SetLock(ctx, giveUp(1)))
	serves("the owner's, given up", first, true)
	serves("shared, given up", both, true)
	other := nfsclient.LockOwner(3)
	srv.watcher.Lost(h, &other, errors.New("of nobody"))
	check(t, first.Fsync(ctx))
}

// TestLostLockOfMappedPages: pages stored to through a mapping come by an opening that the kernel
// chooses. If that one has lost its lock, all are told that the pages were not written.
func TestLostLockOfMappedPages(t *testing.T) {
	srv := newLockServer(t)
	c := newCache(t, srv.client(1), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	defer f.ReleaseLocks()
	g, _ := open(t, c, "a", rw)
	defer g.Release()
	owner := nfsclient.LockOwner(1)
	check(t, f.SetLock(ctx, exclusive(owner, false)))
	srv.watcher.Lost(f.Inode().Handle(), &owner, errors.New("reclaimed by another"))
	if n, err := f.WriteBack(ctx, []byte("pages"), 0); n != 0 || !errors.Is(err, ErrLockLost) {
		t.Errorf("write-back of 5 bytes: %d, %v", n, err)
	}
	if err := g.Fsync(ctx); !errors.Is(err, ErrLockLost) {
		t.Errorf("fsync of another opening: %v", err)
	}
	check(t, g.Fsync(ctx))
}

// TestLockLostAtOnce: a lock may be lost between the server's answer and the end of the
// request. If the request fails nothing was.
func TestLockLostAtOnce(t *testing.T) {
	srv := newLockServer(t)
	here, there := srv.client(1), srv.client(2)
	c := newCache(t, here, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	h, owner := f.Inode().Handle(), nfsclient.LockOwner(1)
	lose := func() { srv.watcher.Lost(h, &owner, errors.New("reclaimed by another")) }
	here.before = lose
	check(t, f.SetLock(ctx, exclusive(owner, false)))
	if _, err := f.Write(ctx, []byte("data"), 0); !errors.Is(err, ErrLockLost) {
		t.Errorf("write: %v", err)
	}
	check(t, f.SetLock(ctx, giveUp(owner)))
	write(t, f, []byte("data"), 0)
	check(t, there.set(h, 1, exclusive(1, false).Lock))
	if err := f.SetLock(ctx, exclusive(owner, false)); !errors.Is(err, nfsclient.ErrLocked) {
		t.Errorf("another mount's: %v", err)
	}
	write(t, f, []byte("data"), 0)
	here.before = nil
	f.ReleaseLocks()
}

// TestFlockUpgrade: two that share a lock by flock(2) and both want it alone get it
// one after the other; a POSIX owner is told of the deadlock.
func TestFlockUpgrade(t *testing.T) {
	srv := newLockServer(t)
	c := newCache(t, srv.client(1), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	for _, flock := range []bool{true, false} {
		ask := func(r LockRequest) LockRequest { r.Flock = flock; return r }
		for o := range 2 {
			check(t, f.SetLock(ctx, ask(shared(nfsclient.LockOwner(o), false))))
		}
		errs := make(chan error, 2)
		for o := range 2 {
			go func() {
				owner := nfsclient.LockOwner(o)
				err := f.SetLock(ctx, ask(exclusive(owner, true)))
				errs <- errors.Join(err, f.SetLock(ctx, ask(giveUp(owner))))
			}()
		}
		var failed []error
		for range 2 {
			if err := <-errs; err != nil {
				failed = append(failed, err)
			}
		}
		if want := 1; flock && len(failed) > 0 || !flock && (len(failed) != want || !errors.Is(failed[0], ErrDeadlock)) {
			t.Errorf("flock %t: %v", flock, failed)
		}
	}
	f.ReleaseLocks()
}

// TestManyWaiters: 1,000 that wait for one of their mount cost the server no call
// while they do.
func TestManyWaiters(t *testing.T) {
	srv := newLockServer(t)
	c := newCache(t, srv.client(1), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	check(t, f.SetLock(ctx, exclusive(0, false)))
	asked := srv.asked
	const n = 1000
	var wg sync.WaitGroup
	var count int // guarded by the lock that is tested
	for o := range n {
		wg.Go(func() {
			owner := nfsclient.LockOwner(o + 1)
			if err := f.SetLock(ctx, exclusive(owner, true)); err != nil {
				t.Error(err)
				return
			}
			count++
			if err := f.SetLock(ctx, giveUp(owner)); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, func() bool {
		c.locks.mu.Lock()
		defer c.locks.mu.Unlock()
		return c.locks.table.Waiting() == n
	})
	if srv.asked != asked {
		t.Errorf("%d calls while %d wait", srv.asked-asked, n)
	}
	check(t, f.SetLock(ctx, giveUp(0)))
	wg.Wait()
	if calls := srv.asked - asked; count != n || calls != 2*n+1 {
		t.Errorf("%d had it, with %d calls", count, calls)
	}
	f.ReleaseLocks()
}

// TestNoLocks: without a lock manager nobody gets a lock, and nobody a local one.
func TestNoLocks(t *testing.T) {
	c := newCache(t, newFake(t), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	if err := f.SetLock(ctx, exclusive(1, true)); nfsclient.Errno(err) != 37 { // ENOLCK
		t.Error(err)
	}
	if _, _, err := f.TestLock(ctx, exclusive(1, true)); !errors.Is(err, ErrNoLocks) {
		t.Error(err)
	}
	check(t, f.Unlock(ctx, 1))
	f.ReleaseLocks()
}

// waitFor returns once what is so.
func waitFor(t testing.TB, what func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
	}
}

// TestLockDropsWhatIsCached: when a lock was taken the kernel has dropped its pages
// and the attributes are new, though neither shows a change.
func TestLockDropsWhatIsCached(t *testing.T) {
	srv, k := newLockServer(t), newKernel()
	srv.foreign("a", []byte("old"))
	cfg := testConfig()
	cfg.Kernel = k
	c := newCache(t, srv.client(1), cfg)
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	read(t, f, 3, 0)
	asked := srv.count("GETATTR")
	check(t, f.SetLock(ctx, shared(1, false)))
	select {
	case ino := <-k.inodes:
		if ino != f.Inode().Ino() {
			t.Errorf("pages of %d were dropped", ino)
		}
	default:
		t.Error("the kernel keeps its pages")
	}
	if got := srv.count("GETATTR") - asked; got != 1 {
		t.Errorf("%d GETATTR", got)
	}
	f.ReleaseLocks()
}
