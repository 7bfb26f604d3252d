package rpcsecgss

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWindow holds the window to the text of RFC 2203 section 5.3.3.1.
func TestWindow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var w window
		seen, last := map[uint32]bool{}, int64(-1)
		base := rnd.Uint32N(MaxSeq)
		for range 500 {
			var seq uint32
			switch rnd.IntN(8) {
			case 0:
				base += rnd.Uint32N(3 * windowSize)
				seq = base
			case 1:
				seq = base - min(base, rnd.Uint32N(2*windowSize))
			case 2:
				seq = base
			default:
				base++
				seq = base - min(base, rnd.Uint32N(8))
			}
			want := !seen[seq] && int64(seq) > last-windowSize
			if got := w.take(seq); got != want {
				t.Fatalf("number %d after %d, seen %v: %v", seq, last, seen[seq], got)
			}
			if want {
				seen[seq], last = true, max(last, int64(seq))
			}
		}
	}
}

func TestWindowEdges(t *testing.T) {
	for name, tc := range map[string]struct {
		seqs []uint32
		want bool // of the last
	}{
		"first is 0":           {[]uint32{0}, true},
		"0 again":              {[]uint32{0, 0}, false},
		"lowest in the window": {[]uint32{1000, 1000 - windowSize + 1}, true},
		"highest below it":     {[]uint32{1000, 1000 - windowSize}, false},
		"as far up as it is":   {[]uint32{1000, 1000 + windowSize, 1000}, false},
		"its own new lowest":   {[]uint32{1000, 1000 + windowSize, 1001}, true},
		"jump keeps none":      {[]uint32{64, 64 + 3*windowSize, 65 + 2*windowSize}, true},
		"highest of all":       {[]uint32{MaxSeq - 1, 1<<32 - 1, 1<<32 - 1}, false},
	} {
		var w window
		var got bool
		for _, s := range tc.seqs {
			got = w.take(s)
		}
		if got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWindowTakesOnce: of several calls with one number, only one is served.
func TestWindowTakesOnce(t *testing.T) {
	var w window
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for seq := range uint32(windowSize) {
				if w.take(seq) {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != windowSize {
		t.Errorf("%d numbers taken, want %d", taken.Load(), windowSize)
	}
}
