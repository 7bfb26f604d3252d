package cache

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// kernel records what the kernel is told.
type kernel struct {
	inodes  chan uint64
	entries chan string
}

func newKernel() *kernel {
	return &kernel{make(chan uint64, 100), make(chan string, 100)}
}

func (k *kernel) InvalidateInode(i *Inode)              { k.inodes <- i.Ino() }
func (k *kernel) InvalidateEntry(d *Inode, name string) { k.entries <- name }

func TestCloseToOpen(t *testing.T) { eachProtocol(t, testCloseToOpen) }

func testCloseToOpen(t *testing.T, cl nfsclient.Client, srv *fake) {
	k := newKernel()
	srv.foreign("a", []byte("one"))
	cfg := testConfig()
	cfg.Kernel = k
	c := newCache(t, cl, cfg)
	f, _ := open(t, c, "a", rw)
	if got := read(t, f, 10, 0); string(got) != "one" {
		t.Fatalf("read %q", got)
	}
	f.Release()
	f, keep := open(t, c, "a", rw)
	if !keep {
		t.Error("pages of an unchanged file are dropped")
	}
	write(t, f, []byte("ours"), 0)
	check(t, f.Flush(ctx))
	f.Release()
	f, keep = open(t, c, "a", rw)
	if !keep {
		t.Error("pages are dropped for our own change")
	}
	f.Release()
	srv.foreign("a", []byte("theirs"))
	f, keep = open(t, c, "a", rw)
	if keep {
		t.Error("pages are kept in spite of a change elsewhere")
	}
	if got := read(t, f, 10, 0); string(got) != "theirs" {
		t.Errorf("read %q", got)
	}
	if n := <-k.inodes; n != f.i.Ino() {
		t.Errorf("the kernel was told of inode %d", n)
	}
	f.Release()
	f, keep = open(t, c, "a", rw)
	defer f.Release()
	if !keep {
		t.Error("pages are dropped a second time")
	}
	f.i.mu.Lock()
	opens := f.i.opens
	f.i.mu.Unlock()
	if opens != 1 {
		t.Errorf("%d openings", opens)
	}
}

// An open whose attributes crossed with a write of ours must still see what
// someone else did, and only that.
func TestOpenCrossingOwnWrite(t *testing.T) {
	for _, theirs := range []bool{false, true} {
		eachProtocol(t, func(t *testing.T, cl nfsclient.Client, srv *fake) { testOpenCrossingOwnWrite(t, cl, srv, theirs) })
	}
}

func testOpenCrossingOwnWrite(t *testing.T, cl nfsclient.Client, srv *fake, theirs bool) {
	c := newCache(t, cl, testConfig())
	f := create(t, c, "a")
	write(t, f, []byte("first"), 0)
	check(t, f.Flush(ctx))
	g, _, err := c.Open(ctx, alice, f.i, rw)
	check(t, err)
	g.Release()
	if theirs {
		srv.foreign("a", []byte("theirs"))
	}
	var once sync.Once
	srv.hook = func(op string, done bool) error {
		if done && (op == "GETATTR" || op == "ACCESS" || op == "OPEN") {
			once.Do(func() {
				write(t, f, []byte("x"), 0)
				check(t, f.Fsync(ctx))
			})
		}
		return nil
	}
	g, keep, err := c.Open(ctx, alice, f.i, rw)
	check(t, err)
	if keep == theirs {
		t.Errorf("changed elsewhere %v, but pages kept %v", theirs, keep)
	}
	g.Release()
	f.Release()
}

func TestOwnWritesWithoutPreAttributesKeepPages(t *testing.T) {
	srv := newFake(t)
	srv.noPre = true
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	write(t, f, pattern(300_000, 1), 0)
	check(t, f.Flush(ctx))
	f.Release()
	f, keep := open(t, c, "a", rw)
	f.Release()
	if !keep {
		t.Error("pages are dropped for our own change")
	}
}

func TestForeignChangeBetweenOwnWritesIsSeen(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	write(t, f, []byte("ours"), 0)
	check(t, f.Flush(ctx))
	srv.foreign("a", []byte("theirs"))
	write(t, f, []byte("x"), 0)
	check(t, f.Flush(ctx))
	f.Release()
	f, keep := open(t, c, "a", rw)
	defer f.Release()
	if keep {
		t.Error("pages are kept though someone else wrote in between")
	}
	if got := read(t, f, 10, 0); string(got) != "xheirs" {
		t.Errorf("read %q", got)
	}
}

func TestKernelForgetsNamesOfChangedDirectory(t *testing.T) {
	srv, k := newFake(t), newKernel()
	srv.foreign("a", nil)
	cfg := testConfig()
	cfg.Kernel = k
	c := newCache(t, srv, cfg)
	lookup(t, c, "a")
	srv.foreign("b", nil)
	check(t, c.revalidate(ctx, alice, c.Root()))
	if name := <-k.entries; name != "a" {
		t.Errorf("the kernel was told of %q", name)
	}
}

func TestWritesCarryTheOpenersCredentials(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	g, _, err := c.Open(ctx, bob, f.i, rw)
	check(t, err)
	defer g.Release()
	write(t, f, []byte("aaaa"), 0)
	write(t, g, []byte("bb"), 2)
	write(t, g, []byte("b"), 4)
	f.i.mu.Lock()
	for _, e := range f.i.wb.Dirty() {
		if e.Cred().UID != bob.UID || e.Off() != 2 {
			t.Errorf("dirty at %d for user %d", e.Off(), e.Cred().UID)
		}
	}
	f.i.mu.Unlock()
	check(t, g.Fsync(ctx))
	if got := string(srv.content("a")); got != "aabbb" {
		t.Errorf("server has %q", got)
	}
}

func TestSyncAndDirectWritesAreDurable(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	base := create(t, c, "a")
	defer base.Release()
	for n, mode := range []OpenMode{{Read: true, Write: true, Sync: true}, {Read: true, Write: true, Direct: true}} {
		f, _, err := c.Open(ctx, alice, base.i, mode)
		check(t, err)
		want := pattern(150_000, byte(n))
		write(t, base, pattern(1000, 9), 149_500) // dirty underneath
		write(t, f, want, 0)
		if got := srv.content("a"); !bytes.Equal(got[:150_000], want) {
			t.Errorf("%+v: disk differs at %d", mode, differ(got, want))
		}
		if got := read(t, f, 150_000, 0); !bytes.Equal(got, want) {
			t.Errorf("%+v: read differs", mode)
		}
		f.Release()
	}
	check(t, base.Flush(ctx))
}

func TestModesAndRangesAreChecked(t *testing.T) {
	c := newCache(t, newFake(t), testConfig())
	f := create(t, c, "a")
	defer f.Release()
	r, _, err := c.Open(ctx, alice, f.i, OpenMode{Read: true})
	check(t, err)
	defer r.Release()
	w, _, err := c.Open(ctx, alice, f.i, OpenMode{Write: true})
	check(t, err)
	defer w.Release()
	if _, err := r.Write(ctx, []byte("x"), 0); !errors.Is(err, ErrBadMode) {
		t.Errorf("write: %v", err)
	}
	if _, err := w.Read(ctx, make([]byte, 1), 0); !errors.Is(err, ErrBadMode) {
		t.Errorf("read: %v", err)
	}
	if _, err := f.Write(ctx, []byte("xy"), maxOffset-1); status(err) != nfsclient.ErrFBig {
		t.Errorf("write past the last offset: %v", err)
	}
	if n, err := f.Read(ctx, make([]byte, 10), maxOffset-1); n != 0 || err != nil {
		t.Errorf("read at the last offset: %d, %v", n, err)
	}
}

func TestTruncateOnOpen(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("content"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", OpenMode{Read: true, Write: true, Truncate: true})
	defer f.Release()
	if got := read(t, f, 10, 0); len(got) != 0 {
		t.Errorf("read %q", got)
	}
	_, g, err := c.Create(ctx, alice, c.Root(), "a", nfsclient.SetAttr{}, true, rw)
	if status(err) != nfsclient.ErrExist || g != nil {
		t.Errorf("exclusive create: %v", err)
	}
}

// What is written before times are set must not move them.
func TestTimesSurviveEarlierWrites(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("x"), 0)
	when := time.Unix(500, 0)
	_, _, err := c.SetAttr(ctx, alice, f.i, nfsclient.SetAttr{SetMtime: nfsclient.TimeClient, Mtime: when})
	check(t, err)
	check(t, f.Flush(ctx))
	if a, _, err := c.GetAttr(ctx, alice, f.i); err != nil || !a.Mtime.Equal(when) {
		t.Errorf("mtime %v, %v", a.Mtime, err)
	}
	if srv.count("COMMIT") != 0 {
		t.Error("a small file cost a COMMIT")
	}
}

func TestUnstableAnsweredFileSyncNeedsNoCommit(t *testing.T) {
	srv := newFake(t)
	srv.fileSync = true
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, pattern(500_000, 1), 0)
	check(t, f.Fsync(ctx))
	if n := srv.count("COMMIT"); n != 0 {
		t.Errorf("%d COMMITs", n)
	}
}

func TestBackgroundWritesAndCommits(t *testing.T) {
	srv := newFake(t)
	committed := make(chan struct{}, 1)
	srv.hook = func(op string, done bool) error {
		if op == "COMMIT" && done {
			select {
			case committed <- struct{}{}:
			default:
			}
		}
		return nil
	}
	cfg := testConfig()
	cfg.WriteDelay = time.Millisecond
	c := newCache(t, srv, cfg)
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("x"), 0)
	<-committed
	if string(srv.content("a")) != "x" {
		t.Error("the byte is not on disk")
	}
}

// TestJukeboxIsRetried: WRITE and COMMIT are; other calls the Client itself makes
// again.
func TestJukeboxIsRetried(t *testing.T) {
	isRetried(t, func(op string) error { return fail(op, nfsclient.ErrJukebox) })
}

// TestCredentialIsAwaited: data that cannot be written for want of a credential is kept, on a
// hard mount, and written when there is one; without one a soft mount loses it.
func TestCredentialIsAwaited(t *testing.T) {
	none := func(kind error) error {
		return fmt.Errorf("WRITE: %w", &transport.Error{Fate: transport.NotSent, Err: fmt.Errorf("%w for user 7", kind)})
	}
	isRetried(t, func(string) error { return none(transport.ErrAwaitCredential) })

	srv := newFake(t)
	srv.hook = func(op string, done bool) error {
		if op == "WRITE" && !done {
			return none(transport.ErrNoCredential)
		}
		return nil
	}
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, pattern(1000, 1), 0)
	if err := f.Fsync(ctx); nfsclient.Errno(err) != syscall.EACCES {
		t.Errorf("soft: %v", err)
	}
}

// isRetried has the first WRITE and the first COMMIT of a file fail.
func isRetried(t *testing.T, why func(op string) error) {
	t.Helper()
	srv := newFake(t)
	var mu sync.Mutex
	left := map[string]int{"WRITE": 1, "COMMIT": 1}
	srv.hook = func(op string, done bool) error {
		mu.Lock()
		defer mu.Unlock()
		if !done && left[op] > 0 {
			left[op]--
			return why(op)
		}
		return nil
	}
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	want := pattern(100_000, 1)
	write(t, f, want, 0)
	check(t, f.Fsync(ctx))
	if got := read(t, f, len(want), 0); !bytes.Equal(got, want) {
		t.Error("read differs")
	}
}

// A READ meets the end of the file, and while its answer is on the way the file
// is made longer. Who reads after that shares the READ, but not its end.
func TestSharedReadDoesNotHideLaterWrites(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("start"))
	answered, release := make(chan struct{}), make(chan struct{})
	first := true // READs come one at a time until release
	srv.hook = func(op string, done bool) error {
		if op == "READ" && done && first {
			first = false
			close(answered)
			<-release
		}
		return nil
	}
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", OpenMode{Read: true, Write: true, Direct: true})
	defer f.Release()
	var readers sync.WaitGroup
	reader := func(want int) {
		readers.Go(func() {
			if n, err := f.Read(ctx, make([]byte, 4096), 0); err != nil || n != want {
				t.Errorf("%d bytes read, want %d, %v", n, want, err)
			}
		})
	}
	reader(5)
	<-answered
	write(t, f, []byte("end"), 10_000)
	reader(4096)
	for shared := false; !shared; runtime.Gosched() {
		f.i.mu.Lock()
		// Or it may have been detached, and the second READ be there.
		s, _ := f.i.spans.Find(0)
		shared = f.i.spans.Len() != 1 || s != nil && s.Users() > 1
		f.i.mu.Unlock()
	}
	close(release)
	readers.Wait()
}

// A small file is synced though the server takes no more of a large one.
func TestSmallFilePassesLargeOne(t *testing.T) {
	srv := newFake(t)
	cfg := testConfig()
	cfg.WSize = 4096
	c := newCache(t, srv, cfg)
	large, small := create(t, c, "large"), create(t, c, "small")
	defer large.Release()
	defer small.Release()
	var held sync.WaitGroup
	held.Add(maxShare)
	release := make(chan struct{})
	var mu sync.Mutex
	left := maxShare
	srv.hook = func(op string, done bool) error {
		mu.Lock()
		hold := op == "WRITE" && !done && left > 0
		if hold {
			left--
		}
		mu.Unlock()
		if hold {
			held.Done()
			<-release
		}
		return nil
	}
	want := pattern(2*maxWriters*cfg.WSize, 1)
	write(t, large, want, 0)
	held.Wait()
	write(t, small, []byte("x"), 0)
	check(t, small.Fsync(ctx))
	close(release)
	check(t, large.Fsync(ctx))
	if got := srv.content("large"); !bytes.Equal(got, want) {
		t.Errorf("%d bytes on disk, want %d; first difference at %d", len(got), len(want), differ(got, want))
	}
}
