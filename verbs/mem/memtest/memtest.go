// Package memtest makes memory for tests. It keeps no state and starts no
// goroutine.
package memtest

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Arena is an arena of n bytes that is closed when the test ends.
func Arena(t testing.TB, n int) *mem.Arena {
	t.Helper()
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Vec is memory with the given contents in segments apart from each other.
func Vec(t testing.TB, parts ...string) mem.Vec {
	t.Helper()
	a := Arena(t, 1<<16)
	var v mem.Vec
	off := 0
	for _, p := range parts {
		s := a.Seg(off, len(p))
		copy(s.Bytes(), p)
		v = append(v, s)
		off += len(p) + 100
	}
	return v
}
