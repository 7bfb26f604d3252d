package ranges

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSplitAndJoin(t *testing.T) {
	const r, w = false, true
	for name, c := range map[string]struct{ got, want Set }{
		"first":                     {Set{}.Lock(Range{5, 9, w}), Set{{5, 9, w}}},
		"in the middle, other kind": {Set{{0, 9, r}}.Lock(Range{3, 5, w}), Set{{0, 2, r}, {3, 5, w}, {6, 9, r}}},
		"in the middle, same kind":  {Set{{0, 9, r}}.Lock(Range{3, 5, r}), Set{{0, 9, r}}},
		"touching, same kind":       {Set{{0, 2, w}, {6, 9, w}}.Lock(Range{3, 5, w}), Set{{0, 9, w}}},
		"touching, other kind":      {Set{{0, 2, r}}.Lock(Range{3, 5, w}), Set{{0, 2, r}, {3, 5, w}}},
		"over several":              {Set{{0, 2, r}, {4, 5, w}, {8, 9, r}}.Lock(Range{1, 8, w}), Set{{0, 0, r}, {1, 8, w}, {9, 9, r}}},
		"before all":                {Set{{5, 9, w}}.Lock(Range{0, 1, w}), Set{{0, 1, w}, {5, 9, w}}},
		"to the end":                {Set{{0, End, r}}.Lock(Range{7, End, w}), Set{{0, 6, r}, {7, End, w}}},
		"everything":                {Set{{1, 2, r}, {5, End, w}}.Lock(Range{0, End, w}), Set{{0, End, w}}},
		"unlock the middle":         {Set{{0, 9, w}}.Unlock(3, 5), Set{{0, 2, w}, {6, 9, w}}},
		"unlock the start":          {Set{{0, 9, w}}.Unlock(0, 5), Set{{6, 9, w}}},
		"unlock the end":            {Set{{0, 9, w}}.Unlock(5, End), Set{{0, 4, w}}},
		"unlock all":                {Set{{0, 9, w}, {12, End, r}}.Unlock(0, End), Set{}},
		"unlock what is not held":   {Set{{5, 9, w}}.Unlock(0, 4), Set{{5, 9, w}}},
		"neighbours, same kind":     {Set{{5, 9, w}}.Lock(Range{10, 12, w}), Set{{5, 12, w}}},
		"neighbours, other kind":    {Set{{5, 9, w}}.Lock(Range{10, 12, r}), Set{{5, 9, w}, {10, 12, r}}},
		"the kind changes back":     {Set{{0, 9, r}, {10, 19, w}, {20, 99, r}}.Lock(Range{10, 19, r}), Set{{0, 99, r}}},
		"unlock a byte to the end":  {Set{{1 << 62, End, w}}.Unlock(1<<63, 1<<63), Set{{1 << 62, 1<<63 - 1, w}, {1<<63 + 1, End, w}}},
		"gaps":                      {Set{{3, 5, w}, {8, 9, r}}.Gaps(0, 12), Set{{0, 2, r}, {6, 7, r}, {10, 12, r}}},
		"gaps to the end":           {Set{{3, End, w}}.Gaps(0, End), Set{{0, 2, r}}},
		"no gap":                    {Set{{0, End, w}}.Gaps(4, End), nil},
		"within":                    {Set{{0, 5, w}, {8, End, r}}.Within(4, 9), Set{{4, 5, w}, {8, 9, r}}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// TestModel holds sets to one byte a byte, and checks the invariant.
func TestModel(t *testing.T) {
	const size = 24
	dice := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s Set
		var model [size + 1]byte // the last stands for all beyond
		for range 12 {
			first := dice.Uint64N(size)
			last := first + dice.Uint64N(size-first)
			if dice.IntN(4) == 0 {
				last = End
			}
			kind := byte(dice.IntN(3)) // 0: unlock
			if kind == 0 {
				s = s.Unlock(first, last)
			} else {
				s = s.Lock(Range{first, last, kind == 2})
			}
			for i := first; i <= min(last, size); i++ {
				model[i] = kind
			}
		}
		for i, want := range model {
			var got byte
			for _, r := range s {
				if r.Overlaps(uint64(i), uint64(i)) {
					got = map[bool]byte{false: 1, true: 2}[r.Exclusive]
				}
			}
			if got != want {
				t.Fatalf("byte %d of %v: %d, want %d", i, s, got, want)
			}
		}
		for i := 1; i < len(s); i++ {
			if a, b := s[i-1], s[i]; a.Last >= b.First || a.Last+1 == b.First && a.Exclusive == b.Exclusive {
				t.Fatalf("%v and %v in %v", a, b, s)
			}
		}
	}
}

func TestConflict(t *testing.T) {
	s := Set{{0, 4, false}, {5, 9, true}}
	for _, c := range []struct {
		r    Range
		want bool
	}{
		{Range{0, 4, false}, false}, {Range{0, 4, true}, true}, {Range{4, 5, false}, true}, {Range{9, End, false}, true}, {Range{10, End, true}, false},
	} {
		if _, got := s.Conflict(c.r); got != c.want {
			t.Errorf("%v: conflict %v", c.r, got)
		}
	}
}
