package readahead

import (
	"math/rand/v2"
	"testing"
)

const (
	small = 4 << 10
	large = 64 << 10
	most  = 1 << 20
)

// TestWindowTransitions walks every pair of a state and a kind of read.
func TestWindowTransitions(t *testing.T) {
	in := func(s State) *Window {
		w := &Window{}
		if s >= Alone {
			w.Read(large, large, most) // elsewhere: it does not begin the file
			*w = Window{end: 2 * large, state: Alone}
		}
		if s == Streaming {
			w.Read(2*large, small, most)
		}
		if w.State() != s {
			t.Fatalf("the test's %d is %d", s, w.State())
		}
		return w
	}
	reads := []struct {
		name string
		n    int
		off  func(end int64) int64
		want [Streaming + 1]State
	}{
		{"small, where the last ended", small, func(end int64) int64 { return end }, [...]State{Alone, Streaming, Streaming}},
		{"small, elsewhere", small, func(end int64) int64 { return end + small }, [...]State{Alone, Alone, Alone}},
		{"large, where the last ended", large, func(end int64) int64 { return end }, [...]State{Streaming, Streaming, Streaming}},
		{"large, one too early", large, func(end int64) int64 { return end + large }, [...]State{Streaming, Streaming, Streaming}},
		{"large, one too late", large, func(end int64) int64 { return max(0, end-2*large) }, [...]State{Streaming, Streaming, Streaming}},
		{"large, elsewhere", large, func(end int64) int64 { return end + 100*large }, [...]State{Alone, Alone, Alone}},
	}
	for _, r := range reads {
		for s := Unread; s <= Streaming; s++ {
			w := in(s)
			from, to := w.Read(r.off(w.end), r.n, most)
			if w.State() != r.want[s] || (from < to) != (w.State() == Streaming) {
				t.Errorf("state %d, a read %s: state %d, reading ahead [%d, %d)", s, r.name, w.State(), from, to)
			}
		}
	}
}

// TestWindowGrows: each time the reader has come halfway through what was read
// ahead, the window doubles, and stays within its bound. What is read ahead is
// never left behind by the reader once there is a window.
func TestWindowGrows(t *testing.T) {
	var w Window
	size := 0
	for off := int64(0); off < 16*most; off += large {
		from, to := w.Read(off, large, most)
		if off > 4*most && from < w.end {
			t.Fatalf("at %d: the stretch begins at %d", off, from)
		}
		for n := w.Piece(from, to, 1<<40, most); n > 0; n = w.Piece(from, to, 1<<40, most) {
			from += int64(n)
			w.Started(from)
		}
		if w.size != size && w.size != 2*size && size != 0 || w.size > most || w.next > w.end+most {
			t.Fatalf("at %d: window %d after %d, reading ahead to %d", off, w.size, size, w.next)
		}
		size = w.size
	}
	if size != most {
		t.Errorf("the window has grown to %d of %d", size, most)
	}
}

// TestPiecesAreAligned: the READs of a stretch follow each other, end at multiples
// of rsize or with the file, and what is left waits for more.
func TestPiecesAreAligned(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		w := Window{size: 1 << 20}
		size, rsize := r.Int64N(4<<20), int64(64<<10)<<r.IntN(4)
		from := r.Int64N(4 << 20)
		to := from + r.Int64N(1<<20)
		at := from
		for {
			n := w.Piece(at, to, size, rsize)
			if n == 0 {
				break
			}
			at += int64(n)
			if int64(n) > rsize || at > min(to, size) || at%rsize != 0 && at != size && n < w.size/2 {
				t.Fatalf("[%d, %d) of %d by %d: a READ of %d up to %d", from, to, size, rsize, n, at)
			}
		}
		if rest := min(to, size) - at; from < size && rest > 0 && (to >= size || rest >= rsize) {
			t.Fatalf("[%d, %d) of %d by %d: %d bytes are left", from, to, size, rsize, rest)
		}
	}
}

// TestWholeFile: only the first read of a small file, from its start, brings more
// than was asked for.
func TestWholeFile(t *testing.T) {
	for _, c := range []struct {
		name       string
		before     int // a read from the start of so many bytes
		off        int64
		n          int
		size       int64
		most, want int
	}{
		{"start", 0, 0, small, smallFile, most, smallFile},
		{"start, a large read", 0, 0, large, smallFile, most, smallFile},
		{"all of it", 0, 0, small, small, most, 0},
		{"empty", 0, 0, small, 0, most, 0},
		{"elsewhere", 0, small, small, smallFile, most, 0},
		{"second read", small, small, small, smallFile, most, 0},
		{"start, again", small, 0, small, smallFile, most, 0},
		{"larger file", 0, 0, small, smallFile + 1, most, 0},
		{"beyond the bound", 0, 0, small, smallFile, smallFile - 1, 0},
	} {
		var w Window
		if c.before > 0 {
			w.Read(0, c.before, most)
		}
		if got := w.Whole(c.off, c.n, c.size, c.most); got != c.want {
			t.Errorf("%s: asks for %d, want %d", c.name, got, c.want)
		}
	}
	// What is brought is not read ahead once more.
	var w Window
	w.Whole(0, small, smallFile, most)
	w.Read(0, small, most)
	from, to := w.Read(small, small, most)
	if n := w.Piece(from, to, smallFile, most); n != 0 {
		t.Errorf("reads %d bytes at %d ahead", n, from)
	}
}

// TestStrideTransitions walks what kinds of reads follow each other, by the state
// after each.
func TestStrideTransitions(t *testing.T) {
	const far = 100 * large
	type read struct {
		off  int64
		n    int
		want State
	}
	for _, c := range []struct {
		name  string
		reads []read
	}{
		{"strides", []read{{0, small, Alone}, {far, small, Alone}, {2 * far, small, Striding}, {3 * far, small, Striding}}},
		{"backward strides", []read{{9 * far, small, Alone}, {8 * far, small, Alone}, {7 * far, small, Striding}, {6 * far, small, Striding}}},
		{"backward", []read{{9 * large, small, Alone}, {9*large - small, small, Alone}, {9*large - 2*small, small, Striding}}},
		{"large strides", []read{{far, large, Alone}, {2 * far, large, Alone}, {3 * far, large, Striding}}},
		{"large, backward", []read{{far, large, Alone}, {far - large, large, Streaming}, {far - 2*large, large, Striding}}},
		{"other lengths", []read{{far, small, Alone}, {2 * far, 2 * small, Alone}, {3 * far, small, Alone}, {4 * far, small, Striding}}},
		{"the same again", []read{{far, small, Alone}, {far, small, Alone}, {far, small, Alone}}},
		{"a stream", []read{{far, small, Alone}, {far + small, small, Streaming}, {far + 2*small, small, Streaming}, {far + 3*small, small, Streaming}}},
		{"a stream with gaps", []read{{far, large, Alone}, {far + 2*large, large, Streaming}, {far + 4*large, large, Streaming}}},
		{"a stream out of order", []read{{far, large, Alone}, {far + 2*large, large, Streaming}, {far + large, large, Streaming}, {far + 3*large, large, Streaming}}},
		{"strides end", []read{{0, small, Alone}, {far, small, Alone}, {2 * far, small, Striding}, {far, small, Alone}, {5 * far, small, Alone}}},
		{"strides become a stream", []read{{0, small, Alone}, {far, small, Alone}, {2 * far, small, Striding}, {2*far + small, small, Streaming}}},
		{"a stream becomes strides", []read{{0, large, Streaming}, {large, large, Streaming}, {far, large, Alone}, {2*far - large, large, Striding}}},
	} {
		var w Window
		for k, r := range c.reads {
			from, to := w.Read(r.off, r.n, most)
			_, n := w.Record(1<<40, most)
			if w.State() != r.want || (from < to) != (r.want == Streaming) || n > 0 && r.want != Striding {
				t.Errorf("%s, read %d: state %d, want %d; reading ahead [%d, %d) and %d bytes", c.name, k, w.State(), r.want, from, to, n)
			}
		}
	}
}

// TestRecords: all that is read by strides or backward, from the fourth read on, was
// read ahead, once, within the file and the bound.
func TestRecords(t *testing.T) {
	const size = 40*large + 5
	for _, c := range []struct {
		name         string
		first, delta int64
		n, rsize     int
		ahead        int // READs
	}{
		{"strides", 0, 4 * large, large, most, 8},
		{"strides of small records", 7, large, small, most, 37},
		{"backward", 39 * large, -large, large, most, 8},
		{"backward, not to the start exactly", 39*large + 5, -large, large, most, 8},
		{"backward, READs of one record", 39 * large, -large, large, large, 37},
		{"backward strides", 38 * large, -4 * large, large, most, 7},
		{"records larger than a READ", 0, 4 * large, large, large - 1, 0},
	} {
		var w Window
		have := make([]bool, size)
		calls := 0
		for k, off := 0, c.first; off >= 0 && off < size; k, off = k+1, off+c.delta {
			w.Read(off, c.n, most)
			if k > 3 && c.ahead > 0 && !have[off] {
				t.Errorf("%s: read %d at %d was not read ahead", c.name, k, off)
			}
			for {
				at, n := w.Record(size, int64(c.rsize))
				if n == 0 {
					break
				}
				calls++
				if at < 0 || n > c.rsize || at+int64(n) > size || at > off+most*8 || at < off-most*8 {
					t.Fatalf("%s: at %d: READ of %d bytes at %d", c.name, off, n, at)
				}
				for b := range have[at : at+int64(n)] {
					if have[at:][b] {
						t.Fatalf("%s: at %d: %d is read twice", c.name, off, at+int64(b))
					}
					have[at:][b] = true
				}
			}
		}
		if calls != c.ahead {
			t.Errorf("%s: %d READs ahead, want %d", c.name, calls, c.ahead)
		}
	}
}
