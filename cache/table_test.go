package cache

import (
	"math/rand/v2"
	"testing"
)

type knot struct {
	key  uint64
	link *knot
}

type byKey struct{}

func (byKey) hash(k *knot) uint64 { return mix(k.key) }
func (byKey) next(k *knot) **knot { return &k.link }

// TestTable holds a table to a map, while it grows and shrinks.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var tab table[knot, byKey]
		all := map[uint64]*knot{}
		keys := uint64(1 + r.IntN(3000))
		check := func(key uint64) {
			k := tab.first(mix(key))
			for k != nil && k.key != key {
				k = k.link
			}
			if k != all[key] || k != nil && !tab.has(k) {
				t.Fatalf("%d is %v, want %v", key, k, all[key])
			}
		}
		for grow := 0; grow < 4; grow++ {
			for range 2 * keys {
				key := r.Uint64N(keys)
				k, in := all[key]
				switch {
				case !in && r.IntN(4) >= grow%2*3:
					k = &knot{key: key}
					all[key] = k
					tab.insert(k)
				case in && r.IntN(4) < grow%2*4:
					delete(all, key)
					tab.remove(k)
					tab.remove(k) // which is not in
				}
				check(key)
				if tab.n != len(all) || len(tab.buckets) < tab.n || len(tab.buckets) > 2*tab.n || cap(tab.buckets) > 4*len(tab.buckets)+16 {
					t.Fatalf("%d of %d values, %d buckets of %d", tab.n, len(all), len(tab.buckets), cap(tab.buckets))
				}
			}
			for key := range keys {
				check(key)
			}
		}
		for _, k := range all {
			tab.remove(k)
		}
		if tab.n != 0 || len(tab.buckets) > 0 {
			t.Fatalf("%d values and %d buckets are left", tab.n, len(tab.buckets))
		}
	}
}
