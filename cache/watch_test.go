package cache

import (
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestRecalledIsNotBelieved: attributes, rights, data and names that were good
// for an hour are asked for anew, what was written is sent first, and a reply to
// a question from before the recall is not believed afterwards.
func TestRecalledIsNotBelieved(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	w := srv.watcher
	if w == nil {
		t.Fatal("the Client has no Watcher")
	}
	f := create(t, c, "a")
	defer f.Release()
	i := f.Inode()
	write(t, f, []byte("data"), 0)
	check(t, w.Recalled(ctx, i.Handle()))
	if string(srv.content("a")) != "data" || srv.count("COMMIT")+srv.count("WRITE sync") == 0 {
		t.Error("what was written is not on stable storage")
	}
	ask := func() int {
		before := srv.total()
		_, _, err := c.GetAttr(ctx, alice, i)
		check(t, err)
		_, err = c.Access(ctx, alice, i, nfsclient.AccessRead)
		check(t, err)
		c.Forget(must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a")).Inode, 1)
		return srv.total() - before
	}
	ask()
	if n := ask(); n != 0 {
		t.Fatalf("%d calls for what is known", n)
	}
	check(t, w.Recalled(ctx, i.Handle()))
	check(t, w.Recalled(ctx, c.Root().Handle()))
	if n := ask(); n < 3 {
		t.Errorf("%d calls after a recall", n)
	}
	st := c.stamp()
	a := must[nfsclient.Attr](t)(srv.GetAttr(ctx, alice, i.Handle()))
	check(t, w.Recalled(ctx, i.Handle()))
	i.mu.Lock()
	i.note(st, &a)
	fresh := i.fresh(c.cfg.Now())
	i.mu.Unlock()
	if fresh {
		t.Error("attributes from before the recall are believed")
	}
	check(t, w.Recalled(ctx, "unknown"))
}

// TestLostStateIsReported: who has the file open is told by fsync, once, and by
// writing until then.
func TestLostStateIsReported(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	defer f.Release()
	write(t, f, []byte("data"), 0)
	lost := errors.New("lock lost")
	srv.watcher.Lost(f.Inode().Handle(), nil, lost)
	srv.watcher.Lost("unknown", nil, lost)
	if _, err := f.Write(ctx, []byte("x"), 0); !errors.Is(err, lost) {
		t.Errorf("write: %v", err)
	}
	if err := f.Fsync(ctx); !errors.Is(err, lost) {
		t.Errorf("fsync: %v", err)
	}
	write(t, f, []byte("x"), 0)
	check(t, f.Fsync(ctx))
}

// TestLostStateOfStableFile: of a file whose data is stable nothing is lost that its users or the unmount
// would have to be told, open or closed.
func TestLostStateOfStableFile(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	write(t, f, []byte("data"), 0)
	check(t, f.Flush(ctx))
	h := f.Inode().Handle()
	srv.watcher.Lost(h, nil, errors.New("not opened again"))
	check(t, f.Fsync(ctx))
	f.Release()
	srv.watcher.Lost(h, nil, errors.New("not opened again"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lost) > 0 {
		t.Errorf("%d files with losses", len(c.lost))
	}
}
