package cache

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/cache/readahead"
	"github.com/rdmafs/rdmafs/nfsclient"
)

func TestRandomSmallReadsAreExact(t *testing.T) {
	srv := newFake(t)
	want := pattern(1<<20, 1)
	srv.foreign("a", want)
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	places := []int64{0, 40, 200, 3, 150, 41, 99, 7}
	for _, k := range places {
		if got := read(t, f, 4096, k*4096); !bytes.Equal(got, want[k*4096:][:4096]) {
			t.Errorf("page %d differs", k)
		}
	}
	if n, b := srv.count("READ"), srv.count("READ bytes"); n != len(places) || b != len(places)*4096 {
		t.Errorf("%d READs of %d bytes", n, b)
	}
}

func TestStreamIsReadAheadOnce(t *testing.T) {
	srv := newFake(t)
	want := pattern(3<<20+123, 1)
	srv.foreign("a", want)
	cfg := testConfig()
	cfg.RSize, cfg.ReadAhead = 1<<20, 4<<20
	c := newCache(t, srv, cfg)
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	var got []byte
	for off := 0; off < len(want); off += 128 << 10 {
		got = append(got, read(t, f, 128<<10, int64(off))...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("stream differs at %d", differ(got, want))
	}
	if b := srv.count("READ bytes"); b != len(want) {
		t.Errorf("%d bytes read of %d", b, len(want))
	}
	if n := srv.count("READ"); n > 10 {
		t.Errorf("%d READs for 3 MiB", n)
	}
	f.i.mu.Lock()
	defer f.i.mu.Unlock()
	if n := f.i.spans.Len(); n != 0 {
		t.Errorf("%d spans kept after all was delivered", n)
	}
}

func TestConcurrentReadsShareOneCall(t *testing.T) {
	srv := newFake(t)
	want := pattern(64<<10, 1)
	srv.foreign("a", want)
	cfg := testConfig()
	cfg.ReadAhead = 0
	c := newCache(t, srv, cfg)
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	const readers = 5
	srv.hook = func(op string, done bool) error {
		for op == "READ" && !done { // until all have joined
			runtime.Gosched()
			f.i.mu.Lock()
			s, _ := f.i.spans.Find(0)
			joined := f.i.spans.Len() == 1 && s != nil && s.Users() == readers
			f.i.mu.Unlock()
			if joined {
				break
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			b := make([]byte, len(want))
			if n, err := f.Read(ctx, b, 0); err != nil || !bytes.Equal(b[:n], want) {
				t.Errorf("read: %d, %v", n, err)
			}
		})
	}
	wg.Wait()
	if n := srv.count("READ"); n != 1 {
		t.Errorf("%d READs", n)
	}
}

// A write that is acknowledged, sent and dropped while an older READ of the
// range is under way must be seen by reads that come later.
func TestReadAheadDoesNotHideWrites(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", bytes.Repeat([]byte("o"), 64<<10))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	var once sync.Once
	srv.hook = func(op string, done bool) error {
		if op == "READ" && done {
			once.Do(func() {
				write(t, f, []byte("new"), 0)
				check(t, f.Fsync(ctx))
			})
		}
		return nil
	}
	read(t, f, 64<<10, 0) // may see either
	if got := read(t, f, 3, 0); string(got) != "new" {
		t.Errorf("read %q", got)
	}
}

// The same with the write before the read: the READ's answer is old, and the
// written bytes leave the cache before it is looked at.
func TestReadSeesWriteThatIsFlushedMeanwhile(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", bytes.Repeat([]byte("o"), 10))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	write(t, f, []byte("new and longer"), 5)
	var once sync.Once
	srv.hook = func(op string, done bool) error {
		if op == "READ" && done {
			once.Do(func() { check(t, f.Fsync(ctx)) })
		}
		return nil
	}
	if got := read(t, f, 30, 0); string(got) != "ooooonew and longer" {
		t.Errorf("read %q", got)
	}
}

func TestFileThatShrankOrGrew(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", bytes.Repeat([]byte("x"), 100_000))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	srv.foreign("a", []byte("short"))
	if got := read(t, f, 50_000, 0); string(got) != "short" {
		t.Errorf("%d bytes of a file that shrank", len(got))
	}
	srv.foreign("a", bytes.Repeat([]byte("y"), 90_000))
	if got := read(t, f, 90_000, 0); len(got) != 90_000 {
		t.Errorf("%d bytes of a file that grew", len(got))
	}
}

func TestReadErrors(t *testing.T) {
	var r refuse
	srv := newFake(t)
	srv.foreign("a", pattern(1<<20, 1))
	srv.hook = r.hook
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	r.set("READ", nfsclient.ErrIO)
	for range 3 {
		if _, err := f.Read(ctx, make([]byte, 100_000), 0); status(err) != nfsclient.ErrIO {
			t.Errorf("read: %v", err)
		}
	}
	r.set("", 0)
	if got := read(t, f, 100_000, 0); len(got) != 100_000 {
		t.Errorf("%d bytes once the server is well", len(got))
	}
}

// TestSmallFileIsReadWhole: the first read of a small file brings all of it. What
// another client writes then is seen by who opens the file anew.
func TestSmallFileIsReadWhole(t *testing.T) {
	srv := newFake(t)
	want := pattern(60<<10+5, 1)
	srv.foreign("a", want)
	cfg := testConfig()
	cfg.RSize, cfg.ReadAhead = 1<<20, 4<<20
	c := newCache(t, srv, cfg)
	readAll := func(want []byte) {
		t.Helper()
		f, _ := open(t, c, "a", rw)
		defer f.Release()
		for off := 0; off < len(want); off += 4096 {
			n := min(4096, len(want)-off)
			if got := read(t, f, n, int64(off)); !bytes.Equal(got, want[off:off+n]) {
				t.Fatalf("%d bytes at %d differ", n, off)
			}
		}
	}
	readAll(want)
	if n, b := srv.count("READ"), srv.count("READ bytes"); n != 1 || b != len(want) {
		t.Errorf("%d READs of %d bytes", n, b)
	}
	f, _ := open(t, c, "a", rw)
	read(t, f, 10, 0)
	f.Release()
	want = pattern(50<<10, 2)
	srv.foreign("a", want)
	readAll(want)
	if n := srv.count("READ"); n != 3 {
		t.Errorf("%d READs", n)
	}
}

// TestSmallFileWithAnUnreadablePart: an error of bytes that nobody has asked for is
// not returned.
func TestSmallFileWithAnUnreadablePart(t *testing.T) {
	srv := newFake(t)
	want := pattern(64<<10, 1)
	srv.foreign("a", want)
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	failures := 1
	srv.hook = func(op string, done bool) error {
		if op == "READ" && !done && failures > 0 {
			failures--
			return &nfsclient.Error{Op: op, Status: nfsclient.ErrIO}
		}
		return nil
	}
	if got := read(t, f, 4096, 0); !bytes.Equal(got, want[:4096]) {
		t.Error("the first page differs")
	}
	if n, b := srv.count("READ"), srv.count("READ bytes"); failures != 0 || n != 1 || b != 4096 {
		t.Errorf("%d READs of %d bytes", n, b)
	}
}

// TestBackwardAndStridedReadsAreReadAhead: the bytes are right, and the READs fewer
// than the reads, or as many but made ahead.
func TestBackwardAndStridedReadsAreReadAhead(t *testing.T) {
	const n = 16 << 10
	for _, c := range []struct {
		name         string
		first, delta int64
		most         int // READs
	}{
		{"backward", 63 * n, -n, 30},
		{"strides", 0, 2 * n, 32},
		{"strides backward", 63 * n, -2 * n, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newFake(t)
			want := pattern(64*n, 1)
			srv.foreign("a", want)
			cache := newCache(t, srv, testConfig())
			f, _ := open(t, cache, "a", rw)
			defer f.Release()
			for off := c.first; off >= 0 && off < int64(len(want)); off += c.delta {
				if got := read(t, f, n, off); !bytes.Equal(got, want[off:off+n]) {
					t.Fatalf("%d bytes at %d differ", n, off)
				}
			}
			if got := srv.count("READ"); got > c.most {
				t.Errorf("%d READs, want %d at most", got, c.most)
			}
			if f.window.State() != readahead.Striding {
				t.Errorf("state %d", f.window.State())
			}
		})
	}
}
