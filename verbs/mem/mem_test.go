package mem

import (
	"bytes"
	"os"
	"testing"
)

func newArena(t *testing.T, n int) *Arena {
	t.Helper()
	a, err := NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.b != nil {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return a
}

func TestArenaIsWholePagesAndDistinct(t *testing.T) {
	a, b := newArena(t, 1), newArena(t, 4<<20)
	if a.Len() != os.Getpagesize() || b.Len() != 4<<20 {
		t.Errorf("sizes %d and %d", a.Len(), b.Len())
	}
	if a.ID() == 0 || a.ID() == b.ID() {
		t.Errorf("ids %d and %d", a.ID(), b.ID())
	}
}

func TestArenaRefusesBadSizesAndSecondClose(t *testing.T) {
	for _, n := range []int{0, -1, 1<<40 + 1} {
		if _, err := NewArena(n); err == nil {
			t.Errorf("NewArena(%d) succeeded", n)
		}
	}
	a := newArena(t, 1)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err == nil {
		t.Error("second Close succeeded")
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func TestBoundsPanic(t *testing.T) {
	a := newArena(t, 4096)
	s := a.Seg(100, 10)
	v := Vec{s}
	mustPanic(t, "segment past the end", func() { a.Seg(4000, 97) })
	mustPanic(t, "negative offset", func() { a.Seg(-1, 1) })
	mustPanic(t, "slice past the end", func() { s.Slice(5, 6) })
	mustPanic(t, "overflowing slice", func() { s.Slice(1, int(^uint(0)>>1)) })
	mustPanic(t, "vector slice past the end", func() { v.Slice(nil, 5, 6) })
}

func TestVecCopies(t *testing.T) {
	a := newArena(t, 4096)
	v := Vec{a.Seg(0, 3), a.Seg(100, 0), a.Seg(200, 5)}
	if n := v.CopyIn(1, []byte("abcdefghij")); n != 7 {
		t.Errorf("CopyIn took %d of 7 bytes", n)
	}
	got := make([]byte, 20)
	n := v.CopyOut(0, got)
	if want := []byte("\x00abcdefg"); !bytes.Equal(got[:n], want) {
		t.Errorf("got %q, want %q", got[:n], want)
	}
	for off := 0; off <= v.Len(); off++ {
		for k := 0; k <= v.Len()-off; k++ {
			part := v.Slice(nil, off, k)
			b := make([]byte, k)
			if part.Len() != k || part.CopyOut(0, b) != k || !bytes.Equal(b, got[off:off+k]) {
				t.Fatalf("Slice(%d,%d) holds %q, want %q", off, k, b, got[off:off+k])
			}
		}
	}
}
