package fs

import (
	"os"
	"testing"
	"time"
)

// TestUse: nothing is counted before somebody asks, nor a minute after; threads count as their
// process; what is too much counts as one.
func TestUse(t *testing.T) {
	var u use
	u.add(1, 1, 0, 0, 1)
	table := &useTable{asked: time.Now(), processes: make(map[uint32]process), counts: make(map[useKey]*Used)}
	u.counting.Store(table)
	self := uint32(os.Getpid())
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range threads {
		var thread uint32
		for _, c := range e.Name() {
			thread = thread*10 + uint32(c-'0')
		}
		u.add(thread, 7, 3, 5, 1)
	}
	n := uint64(len(threads))
	if c := table.counts[useKey{self, 7}]; c == nil || c.Process == "" || c.Requests != n || c.BytesRead != 3*n || c.BytesWritten != 5*n {
		t.Errorf("%+v of %d threads", c, n)
	}
	for node := range uint64(3 * maxUsed) {
		u.add(self, 100+node, 0, 1, 1)
	}
	var requests uint64
	for _, c := range table.counts {
		requests += c.Requests
	}
	if len(table.counts) > maxUsed+1 || requests != 3*maxUsed+n || table.counts[useKey{}].Requests < maxUsed {
		t.Errorf("%d pairs, %d requests, %+v", len(table.counts), requests, table.counts[useKey{}])
	}
	table.asked = time.Now().Add(-2 * usedRest)
	if u.add(self, 7, 0, 0, 1); u.counting.Load() != nil {
		t.Error("it goes on though nobody asks")
	}
}
