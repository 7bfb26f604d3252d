package cache

import (
	"math/bits"
	"slices"
)

// table is a hash table of values that have the links of their chains in themselves: a
// value costs it one pointer, and no key is kept twice. A bucket is added for each value,
// and buckets are taken away while there are more than twice as many (linear hashing), so that
// no change moves more than a chain or two. The zero table is empty.
type table[T any, K kind[T]] struct {
	buckets []*T
	n       int
}

// kind is by what a table finds its values.
type kind[T any] interface {
	hash(*T) uint64
	next(*T) **T // the link, which is the table's
}

// place is the bucket of a hash; there is at least one.
func (t *table[T, K]) place(hash uint64) int {
	all := uint64(1) << bits.Len(uint(len(t.buckets)-1))
	b := hash & (all - 1)
	if b >= uint64(len(t.buckets)) {
		b &= all/2 - 1
	}
	return int(b)
}

// first is the chain of a hash; others follow by their links.
func (t *table[T, K]) first(hash uint64) *T {
	if len(t.buckets) == 0 {
		return nil
	}
	return t.buckets[t.place(hash)]
}

// insert adds v, which is in no table of the kind.
func (t *table[T, K]) insert(v *T) {
	var k K
	if t.n++; t.n > len(t.buckets) {
		t.grow()
	}
	at := &t.buckets[t.place(k.hash(v))]
	*k.next(v), *at = *at, v
}

// remove takes v out, if it is in.
func (t *table[T, K]) remove(v *T) {
	var k K
	if len(t.buckets) == 0 {
		return
	}
	for at := &t.buckets[t.place(k.hash(v))]; *at != nil; at = k.next(*at) {
		if *at == v {
			*at, *k.next(v) = *k.next(v), nil
			for t.n--; 2*t.n < len(t.buckets); {
				t.shrink()
			}
			return
		}
	}
}

// has says whether v is in.
func (t *table[T, K]) has(v *T) bool {
	var k K
	w := t.first(k.hash(v))
	for w != nil && w != v {
		w = *k.next(w)
	}
	return w != nil
}

// grow adds a bucket, and moves to it what belongs there of the one that had it before.
func (t *table[T, K]) grow() {
	var k K
	last := len(t.buckets)
	t.buckets = append(t.buckets, nil)
	if last == 0 {
		return
	}
	at := &t.buckets[last-1<<(bits.Len(uint(last))-1)]
	for *at != nil {
		v := *at
		if t.place(k.hash(v)) != last {
			at = k.next(v)
			continue
		}
		*at, *k.next(v), t.buckets[last] = *k.next(v), t.buckets[last], v
	}
}

// shrink takes the last bucket away, and its memory once much of it is unused.
func (t *table[T, K]) shrink() {
	var k K
	last := len(t.buckets) - 1
	chain := t.buckets[last]
	t.buckets[last] = nil
	t.buckets = t.buckets[:last]
	for chain != nil {
		v := chain
		chain = *k.next(v)
		at := &t.buckets[t.place(k.hash(v))]
		*k.next(v), *at = *at, v
	}
	if cap(t.buckets) > 16 && 4*last < cap(t.buckets) {
		t.buckets = slices.Clone(t.buckets)
	}
}
