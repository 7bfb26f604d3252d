//go:build cgo && linux

package ibv

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// TestWaitSame: the end of the context of a wait ends it, also that of one that was waited with before, and the contexts of
// earlier waits are not kept.
func TestWaitSame(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer w.Close()
	p, err := newPoller(fds[0], "pipe")
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer p.close()
	take := func(fd uintptr) bool {
		var b [1]byte
		n, _ := unix.Read(int(fd), b[:])
		return n == 1
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			if _, err := w.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			for {
				if err := p.waitSame(ctx, take); err == nil {
					break
				} else if !errors.Is(err, errWoken) {
					t.Fatal(err)
				}
			}
		}
		go cancel()
		if err := p.waitSame(ctx, take); !errors.Is(err, errWoken) {
			t.Errorf("after the context's end: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(10, func() {
		_, _ = w.Write([]byte{1})
		_ = p.waitSame(ctx, take)
	}); n > 0 && !verbstest.RaceEnabled {
		t.Errorf("%v allocations for a wait", n)
	}
	p.forget()
	if p.done != nil || p.disarm != nil {
		t.Error("a context is kept")
	}
}
