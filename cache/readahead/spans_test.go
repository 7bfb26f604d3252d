package readahead

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// buffer counts how often it was released.
type buffer struct{ released *int }

func (b buffer) Release() { *b.released++ }

func newBuffer() buffer { return buffer{new(int)} }

func add(l *Spans[buffer], off int64, n int, b buffer, ahead bool) *Span[buffer] {
	s := new(Span[buffer])
	l.Add(s, off, n, b, ahead)
	return s
}

// TestSpanLifecycle walks what may become of a span, by whether it was read ahead:
// whether it is still found, and whether its buffer was released. Leave says that it is
// unused just when it has released the buffer.
func TestSpanLifecycle(t *testing.T) {
	const n = 100
	leaving := func(l *Spans[buffer], s *Span[buffer], k int) {
		before := *s.Buf.released
		if unused := l.Leave(s, k); unused != (*s.Buf.released > before) {
			t.Errorf("unused: %v, released: %v", unused, *s.Buf.released > before)
		}
	}
	type outcome struct{ found, released bool }
	fetch := func(got int, err error) func(*Spans[buffer], *Span[buffer]) {
		return func(l *Spans[buffer], s *Span[buffer]) {
			s.Fetched(got, err)
			leaving(l, s, 0)
		}
	}
	deliver := func(k int) func(*Spans[buffer], *Span[buffer]) {
		return func(l *Spans[buffer], s *Span[buffer]) {
			s.Join()
			leaving(l, s, k)
		}
	}
	join := func(_ *Spans[buffer], s *Span[buffer]) { s.Join() }
	leave := func(l *Spans[buffer], s *Span[buffer]) { leaving(l, s, 0) }
	detach := func(l *Spans[buffer], _ *Span[buffer]) { l.Detach(n/2, n/2+1) }
	elsewhere := func(l *Spans[buffer], _ *Span[buffer]) { l.Detach(n, 2*n) }
	trim := func(l *Spans[buffer], _ *Span[buffer]) { l.Trim(0) }
	for _, c := range []struct {
		name        string
		do          []func(*Spans[buffer], *Span[buffer])
		ahead, here outcome
	}{
		{"outstanding", nil, outcome{true, false}, outcome{true, false}},
		{"fetched", []func(*Spans[buffer], *Span[buffer]){fetch(n, nil)}, outcome{true, false}, outcome{false, true}},
		{"fetched, shared", []func(*Spans[buffer], *Span[buffer]){join, fetch(n, nil)}, outcome{true, false}, outcome{true, false}},
		{"fetched, shared and left", []func(*Spans[buffer], *Span[buffer]){join, fetch(n, nil), leave}, outcome{true, false}, outcome{false, true}},
		{"failed", []func(*Spans[buffer], *Span[buffer]){fetch(0, errors.New("no"))}, outcome{false, true}, outcome{false, true}},
		{"failed, shared", []func(*Spans[buffer], *Span[buffer]){join, fetch(0, errors.New("no"))}, outcome{false, false}, outcome{false, false}},
		{"nothing there", []func(*Spans[buffer], *Span[buffer]){fetch(0, nil)}, outcome{false, true}, outcome{false, true}},
		{"delivered in part", []func(*Spans[buffer], *Span[buffer]){fetch(n, nil), func(l *Spans[buffer], s *Span[buffer]) {
			if s.listed {
				deliver(n-1)(l, s)
			}
		}}, outcome{true, false}, outcome{false, true}},
		{"delivered", []func(*Spans[buffer], *Span[buffer]){join, fetch(n, nil), func(l *Spans[buffer], s *Span[buffer]) { leaving(l, s, n) }},
			outcome{false, true}, outcome{false, true}},
		{"detached", []func(*Spans[buffer], *Span[buffer]){detach}, outcome{false, false}, outcome{false, false}},
		{"detached, then fetched", []func(*Spans[buffer], *Span[buffer]){detach, fetch(n, nil)}, outcome{false, true}, outcome{false, true}},
		{"fetched, then detached", []func(*Spans[buffer], *Span[buffer]){join, fetch(n, nil), leave, detach}, outcome{false, true}, outcome{false, true}},
		{"detached elsewhere", []func(*Spans[buffer], *Span[buffer]){elsewhere}, outcome{true, false}, outcome{true, false}},
		{"trimmed while outstanding", []func(*Spans[buffer], *Span[buffer]){trim}, outcome{true, false}, outcome{true, false}},
		{"trimmed", []func(*Spans[buffer], *Span[buffer]){fetch(n, nil), trim}, outcome{false, true}, outcome{false, true}},
	} {
		for _, ahead := range []bool{true, false} {
			want := c.here
			if ahead {
				want = c.ahead
			}
			var l Spans[buffer]
			b := newBuffer()
			s := add(&l, 0, n, b, ahead)
			for _, do := range c.do {
				do(&l, s)
			}
			found, _ := l.Find(n / 2)
			if got := (outcome{found == s, *b.released == 1}); got != want || *b.released > 1 {
				t.Errorf("%s, ahead %v: %+v, want %+v; released %d times", c.name, ahead, got, want, *b.released)
			}
		}
	}
}

// TestFindTellsTheGap: what is not there ends where the next span begins.
func TestFindTellsTheGap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var l Spans[buffer]
		have := [64]bool{}
		for range r.IntN(5) {
			off, n := r.Int64N(50), 1+r.IntN(10)
			add(&l, off, n, newBuffer(), r.IntN(2) == 0)
			for k := off; k < off+int64(n); k++ {
				have[k] = true
			}
		}
		for off := range int64(60) {
			s, next := l.Find(off)
			if (s != nil) != have[off] {
				t.Fatalf("at %d: found %v, want %v", off, s != nil, have[off])
			}
			for k := off; s == nil && k < 64; k++ {
				if have[k] != (k >= next) && k <= min(next, 63) {
					t.Fatalf("at %d: the gap ends at %d, not %d", off, k, next)
				}
			}
			if s == nil && next == math.MaxInt64 {
				for k := off; k < 64; k++ {
					if have[k] {
						t.Fatalf("at %d: no gap, but there is something at %d", off, k)
					}
				}
			}
		}
	}
}
