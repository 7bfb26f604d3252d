package cache

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	mustpkg "github.com/rdmafs/rdmafs/test/must"
)

var (
	ctx   = context.Background()
	alice = nfsclient.Cred{UID: 1000, GID: 1000}
	bob   = nfsclient.Cred{UID: 1001, GID: 1001}
	rw    = OpenMode{Read: true, Write: true}
)

func testConfig() Config {
	return Config{RSize: 64 << 10, WSize: 64 << 10, AcRegMin: time.Hour, AcRegMax: time.Hour,
		AcDirMin: time.Hour, AcDirMax: time.Hour, ReadAhead: 1 << 20, WriteDelay: time.Hour}
}

// newCache is a cache over f that is closed at the test's end, which must leave
// neither leases nor references behind.
func newCache(t testing.TB, f nfsclient.Client, cfg Config) *Cache {
	t.Helper()
	pool, err := bufpool.New(bufpool.Config{Limit: 16 << 20, Register: f.Register, Unregister: f.Unregister})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(f, pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.mu.Lock()
		open := !c.ended
		c.mu.Unlock()
		if open {
			if err := c.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if s := pool.Stats(); s.Leases != 0 || c.buffered.Load() != 0 {
			t.Errorf("%d leases and %d buffered bytes left over", s.Leases, c.buffered.Load())
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// must and check are short for must.Get and must.Do.
func must[T any](t testing.TB) func(T, error) T { return mustpkg.Get[T](t) }

func check(t testing.TB, err error) { t.Helper(); mustpkg.Do(t, err) }

func create(t testing.TB, c *Cache, name string) *File {
	t.Helper()
	e, f, err := c.Create(ctx, alice, c.Root(), name, nfsclient.SetAttr{}, false, rw)
	check(t, err)
	t.Cleanup(func() { c.Forget(e.Inode, 1) })
	return f
}

func open(t testing.TB, c *Cache, name string, mode OpenMode) (*File, bool) {
	t.Helper()
	e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), name))
	f, keep, err := c.Open(ctx, alice, e.Inode, mode)
	c.Forget(e.Inode, 1)
	check(t, err)
	return f, keep
}

func write(t testing.TB, f *File, b []byte, off int64) {
	t.Helper()
	if n, err := f.Write(ctx, b, off); err != nil || n != len(b) {
		t.Fatalf("Write of %d at %d: %d, %v", len(b), off, n, err)
	}
}

func read(t testing.TB, f *File, n int, off int64) []byte {
	t.Helper()
	b := make([]byte, n)
	k, err := f.Read(ctx, b, off)
	check(t, err)
	return b[:k]
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8) + seed
	}
	return b
}

func TestWriteReadAcrossLayers(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	want := pattern(300_000, 1)
	write(t, f, want, 0)
	if got := read(t, f, len(want)+10, 0); !bytes.Equal(got, want) {
		t.Fatal("bytes read before the flush differ")
	}
	check(t, f.Fsync(ctx))
	if !bytes.Equal(srv.content("a"), want) {
		t.Fatal("bytes on the server's disk after fsync differ")
	}
	if got := read(t, f, len(want)+10, 0); !bytes.Equal(got, want) {
		t.Fatal("bytes read after the flush differ")
	}
	write(t, f, []byte("hole"), 400_000)
	want = append(append(want, make([]byte, 100_000)...), "hole"...)
	if got := read(t, f, len(want)+10, 0); !bytes.Equal(got, want) {
		t.Fatalf("with a hole: %d bytes, want %d", len(got), len(want))
	}
	if got := read(t, f, 100, 350_000); !bytes.Equal(got, make([]byte, 100)) {
		t.Fatalf("in a hole behind the server's end: %d bytes", len(got))
	}
}

func TestSmallFileCostsOneWrite(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("hello "), 0)
	write(t, f, []byte("world"), 6)
	check(t, f.Flush(ctx))
	if string(srv.content("a")) != "hello world" {
		t.Fatalf("server has %q", srv.content("a"))
	}
	if w, k := srv.count("WRITE"), srv.count("COMMIT"); w != 1 || k != 0 {
		t.Fatalf("%d WRITE and %d COMMIT", w, k)
	}
}

func TestCrashLosesNothingAcknowledged(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	want := pattern(1<<20, 3)
	write(t, f, want, 0)
	check(t, f.i.drain(ctx)) // written, not committed
	srv.crash()
	if got := read(t, f, len(want), 0); !bytes.Equal(got, want) {
		t.Fatal("bytes read between crash and commit differ")
	}
	check(t, f.Fsync(ctx))
	if !bytes.Equal(srv.content("a"), want) {
		t.Fatal("bytes on disk after crash and fsync differ")
	}
}

func TestLookupIsServedFromMemory(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("x"))
	c := newCache(t, srv, testConfig())
	for range 3 {
		e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
		c.Forget(e.Inode, 1)
		e, err := c.Lookup(ctx, alice, c.Root(), "none")
		if s, _ := nfsclient.StatusOf(err); s != nfsclient.ErrNoEnt || e.EntryTTL <= 0 {
			t.Fatalf("missing name: %+v, %v", e, err)
		}
	}
	if n := srv.total(); n != 2 {
		t.Errorf("%d calls for two names", n)
	}
}

// TestSync: what was written is on the server's disk, and what stands in for a
// removed file is gone, while both files are still open and in use.
func TestSync(t *testing.T) {
	srv := newFake(t)
	srv.foreign("removed", []byte("x"))
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	g, _ := open(t, c, "removed", rw)
	defer g.Release()
	check(t, c.Unlink(ctx, alice, c.Root(), "removed"))
	want := pattern(300_000, 1)
	write(t, f, want, 0)
	check(t, c.Sync(ctx))
	if !bytes.Equal(srv.content("a"), want) {
		t.Error("bytes on the server's disk differ")
	}
	if l := srv.names(); len(l) != 1 || l[0] != "a" {
		t.Errorf("the server has %q", l)
	}
	write(t, f, []byte("more"), 300_000)
	check(t, f.Fsync(ctx))
}

// TestSyncTellsOfLoss: and tells once.
func TestSyncTellsOfLoss(t *testing.T) {
	var r refuse
	srv := newFake(t)
	srv.hook = r.hook
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	r.set("WRITE", nfsclient.ErrNoSpace)
	write(t, f, []byte("x"), 0)
	if err := c.Sync(ctx); status(err) != nfsclient.ErrNoSpace {
		t.Errorf("%v", err)
	}
	check(t, c.Sync(ctx))
}
