package writeback

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestLayer holds a layer to an array with the extent of each byte.
func TestLayer(t *testing.T) {
	const size = 200
	seed, ended := seeds(1)[0], false
	defer sayHow(t, seed, &ended)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	buf := newBuffer(b.lease(size), alice.Opening)
	defer b.f.unref(buf)
	for k := range size {
		buf.lease.Bytes()[k] = byte(k + 1)
	}
	var l layer
	var at [size]*Extent
	for range 2000 {
		off := r.Int64N(size)
		end := off + 1 + r.Int64N(min(20, size-off))
		free, covered := true, []bool{}
		for k := off; k < end; k++ {
			free = free && at[k] == nil
			covered = append(covered, at[k] != nil)
		}
		if l.overlaps(off, end) == free {
			t.Fatalf("overlaps(%d, %d) is %v", off, end, !free)
		}
		for _, g := range l.gaps(nil, off, end) {
			for k := g.off; k < g.end; k++ {
				if covered[k-off] {
					t.Fatalf("gap %v in [%d, %d) is covered at %d", g, off, end, k)
				}
				covered[k-off] = true
			}
		}
		for k, c := range covered {
			if !c {
				t.Fatalf("no gap at %d", off+int64(k))
			}
		}
		if want := at[off] != nil && (off+1 == size || at[off+1] != at[off]); l.endsAt(off+1) != want {
			t.Fatalf("endsAt(%d) is %v", off+1, !want)
		}
		switch e := at[off]; {
		case free:
			e = &Extent{off: off, n: int(end - off), at: int(off), buf: buf, seq: r.Uint64N(100)}
			l.insert(e)
			for k := off; k < end; k++ {
				at[k] = e
			}
		case e != nil && r.IntN(2) == 0:
			l.remove(e)
			for k := e.off; k < e.End(); k++ {
				at[k] = nil
			}
		}
		bytesIn, last := 0, int64(0)
		want := make([]byte, size)
		for k, e := range at {
			if e != nil {
				bytesIn, last, want[k] = bytesIn+1, int64(k+1), byte(k+1)
			}
		}
		got := make([]byte, size)
		l.overlay(got, 0)
		if l.size() != bytesIn || l.end() != last || !bytes.Equal(got, want) {
			t.Fatalf("size %d, end %d, want %d, %d", l.size(), l.end(), bytesIn, last)
		}
	}
	ended = true
}

// TestPartOfWhatIsSent: a read may take a part of an extent while that is being sent. The
// race detector judges.
func TestPartOfWhatIsSent(t *testing.T) {
	b := newBench(t)
	e := Direct(*alice, b.lease(10), 10)
	if !b.f.Claim(e, 0) {
		t.Fatal("an extent of an empty file must wait")
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		if n := e.Vec().Len(); n != 10 {
			t.Errorf("%d bytes are sent", n)
		}
	})
	p := e.part(2, 5)
	sender.Wait()
	if p.Off() != 2 || p.Len() != 3 || len(p.bytes()) != 3 {
		t.Errorf("a part at %d of %d bytes", p.Off(), p.Len())
	}
	b.f.unref(p.buf)
	b.f.WroteDirect(e, Written{How: nfsclient.FileSync})
}
