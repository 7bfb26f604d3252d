package cache

import (
	"bytes"
	"testing"
)

// readLent is ReadLent; lent says whether the data was lent, and dst not touched.
func readLent(t *testing.T, f *File, n int, off int64) (got []byte, lent bool, release func()) {
	t.Helper()
	dst := bytes.Repeat([]byte{0xa5}, n)
	n, l, err := f.ReadLent(ctx, dst, off)
	check(t, err)
	if l.Bytes() == nil {
		return dst[:n], false, l.Release
	}
	if len(l.Bytes()) != n || bytes.Count(dst, []byte{0xa5}) != len(dst) {
		t.Errorf("%d bytes lent of %d, or the caller's buffer was touched", len(l.Bytes()), n)
	}
	return l.Bytes(), true, l.Release
}

// TestReadLent: data in one buffer is lent, be it read ahead, to the end of the
// file or in the middle of a READ; what lies in several, or is not written yet, is
// copied.
func TestReadLent(t *testing.T) {
	srv := newFake(t)
	want := pattern(200_000, 3)
	srv.foreign("a", want)
	c := newCache(t, srv, testConfig()) // READs of 64 KiB
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	for _, tc := range []struct {
		off, n int
		lent   bool
	}{
		{0, 64 << 10, true},
		{64 << 10, 4096, true},
		{64<<10 + 4096, 32 << 10, true},
		{196_608, 3392, true},     // to the end
		{100_000, 100_000, false}, // more than a READ
		{300_000, 10, false},      // nothing
	} {
		got, lent, release := readLent(t, f, tc.n, int64(tc.off))
		if part := want[min(tc.off, len(want)):min(tc.off+tc.n, len(want))]; lent != tc.lent || !bytes.Equal(got, part) {
			t.Errorf("%d bytes at %d: lent %v, %d bytes, right ones: %v", tc.n, tc.off, lent, len(got), bytes.Equal(got, part))
		}
		release()
	}
	write(t, f, []byte("new"), 10)
	got, lent, release := readLent(t, f, 100, 0)
	if lent || string(got[10:13]) != "new" {
		t.Errorf("unwritten data: lent %v, %q", lent, got[8:16])
	}
	release()
}

// TestLentStaysAsItIs: neither a write to the file nor its last close changes or
// frees what is lent.
func TestLentStaysAsItIs(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("old data"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	got, lent, release := readLent(t, f, 100, 0)
	write(t, f, []byte("new"), 0)
	check(t, f.Fsync(ctx))
	if again, _, r := readLent(t, f, 100, 0); string(again) != "new data" {
		t.Errorf("read again: %q", again)
	} else {
		r()
	}
	f.Release()
	c.dropReadAhead()
	if !lent || string(got) != "old data" {
		t.Errorf("lent %v: %q", lent, got)
	}
	release()
}

// TestLentIsCopiedBehindTheEnd: a write behind the end while the READ is under way
// makes the file longer, and the answer too.
func TestLentIsCopiedBehindTheEnd(t *testing.T) {
	srv := newFake(t)
	srv.foreign("a", []byte("start"))
	c := newCache(t, srv, testConfig())
	f, _ := open(t, c, "a", rw)
	defer f.Release()
	first := true
	srv.hook = func(op string, done bool) error {
		if op == "READ" && done && first {
			first = false
			write(t, f, []byte("end"), 10)
		}
		return nil
	}
	got, lent, release := readLent(t, f, 100, 0)
	if lent || string(got) != "start\x00\x00\x00\x00\x00end" {
		t.Errorf("lent %v: %q", lent, got)
	}
	release()
}

func BenchmarkSequentialReadLent(b *testing.B) {
	srv, c := benchCache(b)
	srv.foreign("a", make([]byte, benchSize))
	f, _ := open(b, c, "a", rw)
	defer f.Release()
	p := make([]byte, 128<<10)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		for off := int64(0); off < benchSize; off += int64(len(p)) {
			n, lent, err := f.ReadLent(ctx, p, off)
			if err != nil || n != len(p) {
				b.Fatal(n, err)
			}
			lent.Release()
		}
	}
}
