package nfstest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const toEnd = ^uint64(0)

// user4 is a mount with a buffer, for tests of what a server keeps.
type user4 struct {
	*testing.T
	c     *nfs4.Client
	calls *countedCalls
	buf   *mem.Arena
	root  nfsclient.Handle
	lost  *lostLocks
}

// countedCalls counts the calls of a client: each is a compound. They wait while cut is a channel that is
// not closed, as on a host that sleeps.
type countedCalls struct {
	transport.Caller
	n, ended atomic.Int64
	cut      atomic.Pointer[chan struct{}]
}

func (c *countedCalls) Call(ctx context.Context, q *transport.Call) error {
	c.n.Add(1)
	defer c.ended.Add(1)
	if cut := c.cut.Load(); cut != nil {
		select {
		case <-*cut:
		case <-ctx.Done():
			return &transport.Error{Fate: transport.NotSent, Err: ctx.Err()}
		}
	}
	return c.Caller.Call(ctx, q)
}

// lostLocks is a Watcher that keeps what it is told.
type lostLocks struct {
	mu     sync.Mutex
	owners map[nfsclient.LockOwner]error
	files  map[nfsclient.Handle]error
	// recalled counts, by file.
	recalled map[nfsclient.Handle]int
}

func (l *lostLocks) Recalled(_ context.Context, h nfsclient.Handle) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recalled[h]++
	return nil
}

func (l *lostLocks) recalls(h nfsclient.Handle) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recalled[h]
}

func (l *lostLocks) Lost(h nfsclient.Handle, owner *nfsclient.LockOwner, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner != nil {
		l.owners[*owner] = err
	} else {
		l.files[h] = err
	}
}

func (l *lostLocks) of(owner nfsclient.LockOwner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owners[owner]
}

func newUser4(t *testing.T, nfs transport.Caller, minor uint32, export string) *user4 {
	t.Helper()
	return newBackUser4(t, nfs, nil, minor, export)
}

// newBackUser4 is newUser4 with a back channel, if back is not nil.
func newBackUser4(t *testing.T, nfs transport.Caller, back *backChannel, minor uint32, export string) *user4 {
	t.Helper()
	u := &user4{T: t, calls: &countedCalls{Caller: nfs}}
	u.lost = &lostLocks{owners: map[nfsclient.LockOwner]error{}, files: map[nfsclient.Handle]error{}, recalled: map[nfsclient.Handle]int{}}
	u.c = mountBack4(t, u.calls, back, minor, export)
	u.c.Watch(u.lost)
	u.root, _ = u.c.Root()
	var err error
	u.buf, err = mem.NewArena(1 << 16)
	u.must(err)
	u.must(u.c.Register(u.buf))
	t.Cleanup(func() {
		if err := u.c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := u.buf.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func (u *user4) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// name is of this test alone.
func (u *user4) name(s string) string { return strings.ReplaceAll(u.Name(), "/", "-") + "-" + s }

// create makes a file and opens it.
func (u *user4) create(name string) (nfsclient.Handle, nfsclient.OpenState) {
	u.Helper()
	m, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, u.name(name), nfsclient.SetAttr{Mode: ptr(uint32(0o644))}, false, nfsclient.OpenRead|nfsclient.OpenWrite)
	u.must(err)
	return m.Handle, m.State
}

func (u *user4) open(h nfsclient.Handle, mode nfsclient.OpenMode) nfsclient.OpenState {
	u.Helper()
	o, err := u.c.OpenFile(u.Context(), nfsclient.Cred{}, h, mode)
	u.must(err)
	if o.State == nil || o.Attr == nil {
		u.Errorf("OpenFile: %+v", o)
	}
	return o.State
}

func (u *user4) close(h nfsclient.Handle, st nfsclient.OpenState) {
	u.Helper()
	u.must(u.c.CloseFile(u.Context(), nfsclient.Cred{}, h, st))
}

// provesMarks makes files until one that must not exist costs one compound: the client then knows that the server keeps the marks by
// which files are known again, and its clock.
func (u *user4) provesMarks() {
	u.Helper()
	for k := range 100 {
		before := u.calls.n.Load()
		_, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, u.name(fmt.Sprint("mark", k)), nfsclient.SetAttr{Mode: ptr(uint32(0o600))}, true, 0)
		u.must(err)
		if u.calls.n.Load() == before+1 {
			return
		}
	}
	u.Fatal("each exclusive create costs a SETATTR")
}

// writeNow writes, and again while the server asks for it to be done later, which Write leaves to its caller.
func (u *user4) writeNow(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, v mem.Vec) (nfsclient.WriteResult, error) {
	for {
		r, err := u.c.Write(ctx, cr, h, st, off, v, nfsclient.FileSync)
		if !isStatus(err, nfsclient.ErrJukebox) || ctx.Err() != nil {
			return r, err
		}
		time.Sleep(10 * time.Millisecond) // the server does not tell when
	}
}

func (u *user4) write(h nfsclient.Handle, st nfsclient.OpenState, off uint64, s string) {
	u.Helper()
	v := mem.Vec{u.buf.Seg(0, len(s))}
	v.CopyIn(0, []byte(s))
	r, err := u.writeNow(u.Context(), nfsclient.Cred{}, h, st, off, v)
	u.must(err)
	if r.N != len(s) {
		u.Fatalf("wrote %d of %d bytes", r.N, len(s))
	}
}

func (u *user4) read(h nfsclient.Handle, st nfsclient.OpenState, n int) string {
	u.Helper()
	r, err := u.c.Read(u.Context(), nfsclient.Cred{}, h, st, 0, mem.Vec{u.buf.Seg(0, n)})
	u.must(err)
	return string(u.buf.Bytes()[:r.N])
}

func (u *user4) set(ctx context.Context, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, typ nfsclient.LockType, first, last uint64) error {
	return u.c.SetLock(ctx, nfsclient.Cred{}, h, st, owner, nfsclient.Lock{Type: typ, First: first, Last: last})
}

// free reports whether u would get a lock.
func (u *user4) free(h nfsclient.Handle, owner nfsclient.LockOwner, typ nfsclient.LockType, first, last uint64) bool {
	u.Helper()
	l, err := u.c.TestLock(u.Context(), nfsclient.Cred{}, h, nil, owner, nfsclient.Lock{Type: typ, First: first, Last: last})
	u.must(err)
	return l == nil
}

// counted4 is how many compounds the usual sequences of calls take: one for each call, none beside.
func counted4(u *user4) {
	count := func(what string, want int64, f func()) {
		u.Helper()
		before := u.calls.n.Load()
		f()
		if n := u.calls.n.Load() - before; n != want {
			u.Errorf("%s: %d compounds, want %d", what, n, want)
		}
	}
	ctx, cr := u.Context(), nfsclient.Cred{}
	u.provesMarks()
	for _, exclusive := range []bool{false, true} {
		name := u.name(fmt.Sprintf("small-%v", exclusive))
		var h nfsclient.Handle
		count("create, write, close", 3, func() {
			m, err := u.c.Create(ctx, cr, u.root, name, nfsclient.SetAttr{Mode: ptr(uint32(0o600))}, exclusive, nfsclient.OpenWrite)
			u.must(err)
			if m.Late || m.Attr.Mode != 0o600 || m.State == nil {
				u.Errorf("%+v", m)
			}
			h = m.Handle
			u.write(h, m.State, 0, "data")
			u.close(h, m.State)
		})
		count("open, read, close", 3, func() {
			st := u.open(h, nfsclient.OpenRead)
			if got := u.read(h, st, 100); got != "data" {
				u.Errorf("%q", got)
			}
			u.close(h, st)
		})
	}
	count("create of a file that nobody opens", 1, func() {
		m, err := u.c.Create(ctx, cr, u.root, u.name("node"), nfsclient.SetAttr{Mode: ptr(uint32(0o600))}, true, 0)
		u.must(err)
		if m.State != nil {
			u.Error("a state without a mode")
		}
	})
	a, err := u.c.Mkdir(ctx, cr, u.root, u.name("a"), nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
	u.must(err)
	_, err = u.c.Mkdir(ctx, cr, a.Handle, "b", nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
	u.must(err)
	count("stat of a/b", 2, func() {
		at := u.root
		for _, name := range []string{u.name("a"), "b"} {
			f, err := u.c.Lookup(ctx, cr, at, name)
			u.must(err)
			if f.Attr == nil || f.Dir == nil {
				u.Errorf("%+v", f)
			}
			at = f.Handle
		}
	})
	count("remove", 1, func() {
		_, err := u.c.Remove(ctx, cr, u.root, u.name("node"))
		u.must(err)
	})
}

// opens4: with an opening, in one compound, come what the file is like now and what the user, and not another, may do with it.
func opens4(a, b *user4) {
	ctx, root := a.Context(), nfsclient.Cred{}
	const uid, gid = 12345, 777
	h, st := a.create("opened")
	a.write(h, st, 0, "content")
	a.close(h, st)
	chmod := func(mode uint32) {
		_, err := b.c.SetAttr(ctx, root, h, nil, nfsclient.SetAttr{Mode: &mode, UID: ptr(uint32(uid)), GID: ptr(uint32(gid))})
		b.must(err)
	}
	owner := nfsclient.Cred{UID: uid, GID: uid, GIDs: []uint32{uid}}
	member := nfsclient.Cred{UID: uid + 1, GID: uid + 1, GIDs: []uint32{uid + 1, gid}}
	other := nfsclient.Cred{UID: uid + 2, GID: uid + 2, GIDs: []uint32{uid + 2}}
	const read, write, execute = nfsclient.AccessRead, nfsclient.AccessModify | nfsclient.AccessExtend, nfsclient.AccessExecute
	for _, c := range []struct {
		mode uint32
		who  nfsclient.Cred
		open nfsclient.OpenMode
		may  nfsclient.AccessMask
	}{
		{0o640, owner, nfsclient.OpenRead, read | write},
		{0o640, owner, nfsclient.OpenRead | nfsclient.OpenWrite, read | write},
		{0o640, member, nfsclient.OpenRead, read},
		{0o640, member, nfsclient.OpenWrite, read},
		{0o640, other, nfsclient.OpenRead, 0},
		{0o651, member, nfsclient.OpenRead, read | execute},
		{0o651, other, nfsclient.OpenRead, execute},
		{0o602, other, nfsclient.OpenWrite, write},
		{0o000, owner, nfsclient.OpenRead, 0},
		{0o400, owner, nfsclient.OpenWrite, read},
	} {
		chmod(c.mode)
		n := a.calls.n.Load()
		o, err := a.c.OpenFile(ctx, c.who, h, c.open)
		if n = a.calls.n.Load() - n; n != 1 {
			a.Errorf("open of %#o for %d by %d: %d compounds", c.mode, c.open, c.who.UID, n)
		}
		need := nfsclient.AccessMask(0)
		if c.open&nfsclient.OpenRead != 0 {
			need |= read
		}
		if c.open&nfsclient.OpenWrite != 0 {
			need |= write
		}
		switch {
		case err != nil && c.may&need != need: // a server may let the owner, and who may execute, open the file all the same
			if !isStatus(err, nfsclient.ErrAccess) {
				a.Errorf("open of %#o for %d by %d: %v", c.mode, c.open, c.who.UID, err)
			}
			continue
		case err != nil:
			a.Fatalf("open of %#o for %d by %d: %v", c.mode, c.open, c.who.UID, err)
		}
		if o.Asked != nfsclient.FileRights || o.Granted != c.may {
			a.Errorf("open of %#o for %d by %d: asked about the rights %#x, has %#x, not %#x", c.mode, c.open, c.who.UID, o.Asked, o.Granted, c.may)
		}
		if o.Attr == nil || o.Attr.Mode != c.mode || o.Attr.Size != uint64(len("content")) {
			a.Errorf("open of %#o: attributes %+v", c.mode, o.Attr)
		}
		a.must(a.c.CloseFile(ctx, c.who, h, o.State))
	}
}

// locks4: two clients, and owners of one, exclude each other.
func locks4(a, b *user4) {
	ctx := a.Context()
	h, st := a.create("locked")
	bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
	must := a.must
	must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 10, 19))
	must(a.set(ctx, h, st, 1, nfsclient.ReadLock, 15, 24)) // splits and joins
	for _, c := range []struct {
		u           *user4
		owner       nfsclient.LockOwner
		typ         nfsclient.LockType
		first, last uint64
		free        bool
	}{
		{b, 1, nfsclient.ReadLock, 14, 14, false}, {b, 1, nfsclient.ReadLock, 15, 24, true}, {b, 1, nfsclient.WriteLock, 24, 24, false},
		{b, 1, nfsclient.WriteLock, 25, toEnd, true}, {b, 1, nfsclient.WriteLock, 0, 9, true}, {a, 2, nfsclient.WriteLock, 24, toEnd, false},
		{a, 1, nfsclient.WriteLock, 0, toEnd, true},
	} {
		if got := c.u.free(h, c.owner, c.typ, c.first, c.last); got != c.free {
			a.Errorf("owner %d: lock of type %d from %d to %d free: %v", c.owner, c.typ, c.first, c.last, got)
		}
	}
	if err := b.set(ctx, h, bst, 1, nfsclient.WriteLock, 0, toEnd); !errors.Is(err, nfsclient.ErrLocked) {
		a.Errorf("locked by another client: %v", err)
	}
	l, err := b.c.TestLock(ctx, nfsclient.Cred{}, h, bst, 1, nfsclient.Lock{Type: nfsclient.WriteLock, First: 12, Last: 12})
	if err != nil || l == nil || l.Type != nfsclient.WriteLock || l.First != 10 || l.Last != 14 {
		a.Errorf("TestLock: %+v, %v", l, err)
	}
	// One who waits gets it when it is free; one who gives up does not hold it.
	short, giveUp := context.WithCancel(ctx)
	given := make(chan error, 1)
	go func() {
		given <- b.c.WaitLock(short, nfsclient.Cred{}, h, bst, 3, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: toEnd})
	}()
	giveUp()
	if err := <-given; !errors.Is(err, context.Canceled) {
		a.Errorf("a wait that was given up: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		done <- b.c.WaitLock(ctx, nfsclient.Cred{}, h, bst, 2, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: toEnd})
	}()
	must(a.set(ctx, h, st, 1, nfsclient.Unlocked, 0, toEnd))
	must(<-done)
	if a.free(h, 1, nfsclient.ReadLock, 5, 5) {
		a.Error("what the other client has waited for is free")
	}
	// Closing gives back what is held.
	b.close(h, bst)
	if !a.free(h, 1, nfsclient.WriteLock, 0, toEnd) {
		a.Error("a closed file keeps locks")
	}
	reopened4(a, b, h)
	counter4(a, b, h, st)
	a.close(h, st)
}

// reopened4: a process that closes a file gives up its locks, and may lock again through another descriptor before the
// server hears of the close: that takes away nothing of what was locked since.
func reopened4(a, b *user4, h nfsclient.Handle) {
	const owner = nfsclient.LockOwner(20)
	ctx := a.Context()
	first, second := a.open(h, nfsclient.OpenRead), a.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
	opens := a.c.Seen().Opens - 1 // without the first, in the end
	for range 2 {                 // and back again
		a.must(a.set(ctx, h, first, owner, nfsclient.ReadLock, 0, 9))
		a.must(a.set(ctx, h, first, owner, nfsclient.Unlocked, 0, toEnd))
		a.must(a.set(ctx, h, second, owner, nfsclient.WriteLock, 0, 9))
		a.must(a.set(ctx, h, second, owner, nfsclient.Unlocked, 0, toEnd))
	}
	a.must(a.set(ctx, h, first, owner, nfsclient.ReadLock, 0, 9))
	a.must(a.set(ctx, h, first, owner, nfsclient.Unlocked, 0, toEnd))
	a.must(a.set(ctx, h, second, owner, nfsclient.WriteLock, 0, 9))
	a.close(h, first)
	if b.free(h, 1, nfsclient.ReadLock, 0, 9) {
		a.Error("a lock is free whose owner has closed another descriptor before")
	}
	a.must(a.set(ctx, h, second, owner, nfsclient.Unlocked, 0, toEnd))
	// Where the kernel does not say that a descriptor is closed, its owner has what he has locked through others, too.
	first = a.open(h, nfsclient.OpenRead)
	a.must(a.set(ctx, h, first, owner, nfsclient.ReadLock, 0, 9))
	a.must(a.set(ctx, h, second, owner, nfsclient.WriteLock, 20, 29))
	a.close(h, first)
	a.must(a.set(ctx, h, second, owner, nfsclient.WriteLock, 0, 9))
	for _, at := range []uint64{0, 20} {
		if b.free(h, 1, nfsclient.ReadLock, at, at+9) {
			a.Errorf("what is locked at %d is free once another descriptor is closed", at)
		}
	}
	a.must(a.set(ctx, h, second, owner, nfsclient.Unlocked, 0, 9))
	if b.free(h, 1, nfsclient.ReadLock, 20, 29) {
		a.Error("what is still locked is free")
	}
	a.must(a.set(ctx, h, second, owner, nfsclient.Unlocked, 20, 29))
	if n := a.c.Seen().Opens; n != opens {
		a.Errorf("%d openings are left of %d", n, opens)
	}
	a.close(h, second)
	if err := a.lost.of(owner); err != nil {
		a.Errorf("who has lost nothing was told: %v", err)
	}
}

// counter4: what is counted up under a lock by two clients misses nothing.
func counter4(a, b *user4, h nfsclient.Handle, st nfsclient.OpenState) {
	a.write(h, st, 0, "00000000")
	const rounds = 50
	var wg sync.WaitGroup
	for i, u := range []*user4{a, b} {
		wg.Go(func() { runCounter4(u, h, nfsclient.LockOwner(10+i), rounds) })
	}
	wg.Wait()
	if got := a.read(h, st, 8); got != fmt.Sprintf("%08d", 2*rounds) {
		a.Errorf("counted to %s, want %d", got, 2*rounds)
	}
}

func runCounter4(u *user4, h nfsclient.Handle, owner nfsclient.LockOwner, rounds int) {
	ctx, cr := u.Context(), nfsclient.Cred{}
	o, err := u.c.OpenFile(ctx, cr, h, nfsclient.OpenRead|nfsclient.OpenWrite)
	if err != nil {
		u.Error(err)
		return
	}
	v := mem.Vec{u.buf.Seg(0, 8)}
	for range rounds {
		err := u.c.WaitLock(ctx, cr, h, o.State, owner, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: toEnd})
		if err == nil {
			_, err = u.c.Read(ctx, cr, h, o.State, 0, v)
		}
		if err == nil {
			n, _ := strconv.Atoi(string(u.buf.Bytes()[:8]))
			v.CopyIn(0, fmt.Appendf(nil, "%08d", n+1))
			_, err = u.writeNow(ctx, cr, h, o.State, 0, v)
		}
		if err == nil {
			err = u.set(ctx, h, o.State, owner, nfsclient.Unlocked, 0, toEnd)
		}
		if err != nil {
			u.Error(err)
			return
		}
	}
	if err := u.c.CloseFile(ctx, cr, h, o.State); err != nil {
		u.Error(err)
	}
}

// ganeshas runs f with two clients of each minor version.
func ganeshas(t *testing.T, f func(g *ganesha, a, b *user4)) {
	inGanesha(t, func(t *testing.T, g *ganesha) {
		for name, minor := range minors {
			t.Run(name, func(t *testing.T) {
				at := netip.MustParseAddrPort(ganeshaAddr)
				a, b := newUser4(t, dialHard(t, at), minor, "/export/sub"), newUser4(t, dialHard(t, at), minor, "/export/sub")
				f(g, a, b)
			})
		}
	})
}

func TestGanesha4Compounds(t *testing.T) {
	ganeshas(t, func(_ *ganesha, a, _ *user4) { counted4(a) })
}

func TestGanesha4Opens(t *testing.T) {
	ganeshas(t, func(_ *ganesha, a, b *user4) { opens4(a, b) })
}

func TestGanesha4Locks(t *testing.T) {
	ganeshas(t, func(_ *ganesha, a, b *user4) { locks4(a, b) })
}

// TestGanesha4Restart: openings and locks outlive a restart of the server, in whose grace period they
// are reclaimed. If the server has forgotten its clients, files stay usable, and the owners of locks are
// told.
func TestGanesha4Restart(t *testing.T) {
	ganeshas(t, func(g *ganesha, a, b *user4) {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Minute)
		defer cancel()
		h, st := a.create("locked")
		ro := a.open(h, nfsclient.OpenRead)
		a.write(h, st, 0, "before")
		a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
		a.must(a.set(ctx, h, st, 1, nfsclient.ReadLock, 20, 29))
		g.restart()
		a.write(h, st, 0, "after ")
		if got := a.read(h, ro, 100); got != "after " {
			a.Errorf("%q", got)
		}
		bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
		if b.free(h, 1, nfsclient.ReadLock, 9, 9) || b.free(h, 1, nfsclient.WriteLock, 29, 29) || !b.free(h, 1, nfsclient.WriteLock, 10, 19) {
			a.Error("after a restart the locks are not what they were")
		}
		if err := a.lost.of(1); err != nil {
			a.Errorf("lost after a restart: %v", err)
		}

		g.stop()
		a.must(os.RemoveAll(filepath.Join(g.dir, "recovery")))
		a.must(os.Mkdir(filepath.Join(g.dir, "recovery"), 0o755))
		g.start()
		a.write(h, st, 0, "anew  ")
		b.write(h, bst, 6, "too")
		if got := a.read(h, ro, 100); got != "anew  too" {
			a.Errorf("%q", got)
		}
		for a.lost.of(1) == nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the Watcher is told from another goroutine
		}
		if err := a.lost.of(1); !errors.Is(err, syscall.EIO) {
			a.Errorf("the owner of lost locks was told %v", err)
		}
		if !b.free(h, 1, nfsclient.WriteLock, 0, toEnd) {
			a.Error("a lost lock is held")
		}
		a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
		if b.free(h, 1, nfsclient.ReadLock, 9, 9) {
			a.Error("a lock taken after the loss is not held")
		}
		a.close(h, st)
		a.close(h, ro)
		b.close(h, bst)
		log, err := os.ReadFile(filepath.Join(g.dir, "ganesha.log"))
		a.must(err)
		if !strings.Contains(string(log), "GRACE") {
			a.Error("the server has had no grace period")
		}
	})
}

// TestGanesha4Expired: a client that was away for longer than its lease finds another with its lock.
// The owner is told, and the file stays usable.
func TestGanesha4Expired(t *testing.T) {
	ganeshas(t, func(_ *ganesha, a, b *user4) {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Minute)
		defer cancel()
		h, st := a.create("expired")
		a.write(h, st, 0, "ours  ")
		a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, toEnd))
		bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
		cut := make(chan struct{})
		a.calls.cut.Store(&cut)
		a.must(b.c.WaitLock(ctx, nfsclient.Cred{}, h, bst, 1, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: toEnd}))
		b.write(h, bst, 0, "theirs")
		close(cut)
		if got := a.read(h, st, 100); got != "theirs" {
			a.Errorf("%q", got)
		}
		for a.lost.of(1) == nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the Watcher is told from another goroutine
		}
		if err := a.lost.of(1); !errors.Is(err, syscall.EIO) {
			a.Errorf("the owner of a lock that expired was told %v", err)
		}
		if err := a.set(ctx, h, st, 1, nfsclient.ReadLock, 0, 0); !errors.Is(err, nfsclient.ErrLocked) {
			a.Errorf("the lock that expired can be had again while another has it: %v", err)
		}
		b.close(h, bst)
		a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, toEnd))
		a.close(h, st)
	})
}
