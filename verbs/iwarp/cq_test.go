package iwarp

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// TestQueueHold: a completion wakes a parked Wait, unless the holder of the queue
// takes it; one that is left wakes Wait when the last hold ends.
func TestQueueHold(t *testing.T) {
	var wc [2]verbs.Completion
	for _, c := range []struct {
		name  string
		holds int
		push  []verbs.Op
		room  int
		taken int
		woken bool
	}{
		{"not held", 0, []verbs.Op{verbs.OpSend}, 0, 0, true},
		{"taken", 1, []verbs.Op{verbs.OpSend, verbs.OpWrite}, 2, 2, false},
		{"too many", 1, []verbs.Op{verbs.OpSend, verbs.OpSend}, 1, 1, true},
		{"a receive", 1, []verbs.Op{verbs.OpSend, verbs.OpRecv, verbs.OpSend}, 2, 1, true},
		{"nothing", 1, nil, 2, 0, false},
		{"another holds", 2, []verbs.Op{verbs.OpSend, verbs.OpSend}, 1, 1, false},
	} {
		woken := 0
		q := queue{ring: make([]verbs.Completion, 4), interrupt: func() { woken++ }}
		if !q.park() {
			t.Fatalf("%s: an empty queue cannot be waited for", c.name)
		}
		for range c.holds {
			q.hold()
		}
		for i, op := range c.push {
			q.push(verbs.Completion{ID: uint64(i), Op: op})
		}
		n := 0
		if c.holds > 0 {
			if woken > 0 {
				t.Errorf("%s: woken while held", c.name)
			}
			n = q.release(wc[:c.room])
		}
		if n != c.taken || (woken > 0) != c.woken {
			t.Errorf("%s: took %d, woken %d times; want %d, %v", c.name, n, woken, c.taken, c.woken)
		}
		for i := range n {
			if wc[i].ID != uint64(i) {
				t.Errorf("%s: completion %d is %+v", c.name, i, wc[i])
			}
		}
		if c.holds == 2 && (q.release(nil) != 0 || woken != 1) {
			t.Errorf("%s: woken %d times after the last release", c.name, woken)
		}
	}
}
