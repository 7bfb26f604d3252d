package fs

import "testing"

// Each thread is refused once, and only while the size is unknown.
func TestReopens(t *testing.T) {
	var r reopens
	for n, c := range []struct {
		pid    uint32
		node   uint64
		sized  bool
		refuse bool
	}{
		{1, 7, true, false},
		{1, 7, false, true},
		{2, 7, false, true}, // another thread is refused for itself
		{1, 7, false, false},
		{1, 7, false, true}, // and anew the next time
		{1, 7, true, false},
		{1, 7, false, true}, // having been let in, it is not remembered
		{1, 8, false, true}, // another file
		{1, 8, false, false},
	} {
		if got := r.refuse(c.pid, c.node, c.sized); got != c.refuse {
			t.Errorf("open %d: refused %t, want %t", n, got, c.refuse)
		}
	}
	for pid := range uint32(2 * maxReopens) {
		r.refuse(pid+10, 1, false)
	}
	if n := len(r.node); n > maxReopens {
		t.Errorf("%d threads remembered", n)
	}
}

// Threads outside the pid namespace cannot be told apart: of any number that
// open one file at once, in any order, none is refused twice.
func TestReopensUnseen(t *testing.T) {
	var r reopens
	for _, node := range []uint64{7, 8} {
		refused := 0
		for range 320 {
			if r.refuse(0, node, false) {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d of 320 opens refused, want the first", refused)
		}
	}
	if r.refuse(0, 7, true) || !r.refuse(0, 7, false) || r.refuse(0, 8, false) {
		t.Error("only a file whose size was known again is refused again")
	}
	for node := range uint64(2 * maxReopens) {
		r.refuse(0, node+100, false)
	}
	if n := len(r.unseen); n > maxReopens {
		t.Errorf("%d files remembered", n)
	}
}
