package cache

import (
	"bytes"
	"testing"
	"time"
)

// TestOpenFileIsPolled: who reads a file from the kernel's pages sends us no
// call; that another machine has changed it is found all the same.
func TestOpenFileIsPolled(t *testing.T) {
	srv, k := newFake(t), newKernel()
	srv.foreign("a", []byte("one"))
	cfg := testConfig()
	cfg.AcRegMin, cfg.AcRegMax, cfg.Kernel = 10*time.Millisecond, 40*time.Millisecond, k
	c := newCache(t, srv, cfg)
	f, _ := open(t, c, "a", OpenMode{Read: true})
	defer f.Release()
	for _, s := range []string{"two", "three", "four"} {
		srv.foreign("a", []byte(s))
		select {
		case ino := <-k.inodes:
			if ino != f.i.Ino() {
				t.Fatalf("the kernel was told of inode %d, want %d", ino, f.i.Ino())
			}
		case <-time.After(time.Minute):
			t.Fatal("the kernel was not told")
		}
		if got := read(t, f, 10, 0); string(got) != s {
			t.Errorf("read %q, want %q", got, s)
		}
	}
}

// TestWhatIsPolled: files that are open for reading, once each time their
// attributes have expired, and no file twice at a time.
func TestWhatIsPolled(t *testing.T) {
	srv, k := newFake(t), newClock()
	for _, name := range []string{"read", "written", "closed"} {
		srv.foreign(name, []byte("x"))
	}
	cfg := testConfig()
	cfg.Now = k.now
	c := newCache(t, srv, cfg)
	f, _ := open(t, c, "read", OpenMode{Read: true})
	defer f.Release()
	g, _ := open(t, c, "read", rw)
	w, _ := open(t, c, "written", OpenMode{Write: true})
	defer w.Release()
	closed, _ := open(t, c, "closed", rw)
	closed.Release()
	if due := c.polls.due(); len(due) != 0 {
		t.Errorf("%d files while attributes are believed", len(due))
	}
	k.advance(2 * time.Hour)
	due := c.polls.due()
	if len(due) != 1 || due[0].i != f.i {
		t.Fatalf("%d files, want one", len(due))
	}
	if again := c.polls.due(); len(again) != 0 {
		t.Errorf("%d files while the only one is being asked for", len(again))
	}
	c.runAsk(ctx, due[0])
	if due := c.polls.due(); len(due) != 0 {
		t.Errorf("%d files after the attributes came", len(due))
	}
	g.Release()
	k.advance(2 * time.Hour)
	due = c.polls.due()
	if len(due) != 1 {
		t.Fatalf("%d files, want the one that is still open", len(due))
	}
	c.polls.done(due[0])
}

// TestReadAheadExpires: what was read ahead is not given to a reader who comes
// after attributes have expired, if the file has changed.
func TestReadAheadExpires(t *testing.T) {
	srv, k := newFake(t), newClock()
	before, after := pattern(1<<20, 1), pattern(1<<20, 2)
	srv.foreign("a", before)
	cfg := testConfig()
	cfg.Now = k.now
	c := newCache(t, srv, cfg)
	f, _ := open(t, c, "a", OpenMode{Read: true})
	defer f.Release()
	const piece = 64 << 10
	for n := range 4 {
		if got := read(t, f, piece, int64(n*piece)); !bytes.Equal(got, before[n*piece:(n+1)*piece]) {
			t.Fatalf("piece %d differs", n)
		}
	}
	srv.foreign("a", after)
	k.advance(2 * time.Hour)
	for n := 4; n < 16; n++ {
		if got := read(t, f, piece, int64(n*piece)); !bytes.Equal(got, after[n*piece:(n+1)*piece]) {
			t.Fatalf("piece %d is not what the server has", n)
		}
	}
}
