package cache

import (
	"bytes"
	"sync/atomic"
	"testing"
)

// overwriting writes two blocks and syncs them, and has the first n bytes
// overwritten while each of so many COMMITs is under way.
func overwriting(t *testing.T, n, commits int, then func(*fake, *File)) (srv *fake, older, newer []byte) {
	srv = newFake(t)
	cfg := testConfig()
	cfg.WSize = 4096
	c := newCache(t, srv, cfg)
	f := create(t, c, "a")
	t.Cleanup(f.Release)
	older, newer = pattern(8192, 1), pattern(n, 2)
	var left atomic.Int64
	left.Store(int64(commits))
	srv.hook = func(op string, done bool) error {
		if op == "COMMIT" && !done && left.Add(-1) >= 0 {
			write(t, f, newer, 0)
			then(srv, f)
		}
		return nil
	}
	write(t, f, older, 0)
	check(t, f.Fsync(ctx))
	left.Store(0)
	return srv, older, newer
}

// TestFsyncCoversReplaced: bytes that are acknowledged by fsync are on disk
// though newer ones replaced them on their way, and the server then crashed:
// either those are there or these.
func TestFsyncCoversReplaced(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		then func(*fake, *File)
	}{
		{"sent", 4096, func(srv *fake, f *File) {
			check(t, f.i.drain(ctx))
			srv.crash()
		}},
		{"not sent", 2000, func(srv *fake, f *File) { srv.crash() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, older, newer := overwriting(t, c.n, 1, c.then)
			got := srv.content("a")
			if len(got) != len(older) || !bytes.Equal(got[c.n:], older[c.n:]) ||
				!bytes.Equal(got[:c.n], newer) && !bytes.Equal(got[:c.n], older[:c.n]) {
				t.Errorf("%d bytes on disk, differing from the older at %d, from the newer at %d", len(got), differ(got, older), differ(got, newer))
			}
		})
	}
}

// TestFsyncEnds though what it waits for is replaced all the time.
func TestFsyncEnds(t *testing.T) {
	srv, _, _ := overwriting(t, 4096, 5, func(_ *fake, f *File) { check(t, f.i.drain(ctx)) })
	if n := srv.count("COMMIT"); n != 1 {
		t.Errorf("%d COMMITs", n)
	}
}
