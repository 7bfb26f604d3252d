package garbage

import "testing"

// None fails the test if f allocates. It first runs it a few times, so that pools are
// filled. The count is of the whole process: its average over the runs is rounded down, so
// that what happens now and then beside f does not count.
func None(t *testing.T, f func()) {
	t.Helper()
	AtMost(t, 0, f)
}

// AtMost is None for what allocates n objects each time.
func AtMost(t *testing.T, n int, f func()) {
	t.Helper()
	if race {
		t.Skip("with the race detector sync.Pool drops objects at random")
	}
	for range 10 {
		f()
	}
	if got := testing.AllocsPerRun(100, f); got > float64(n) {
		t.Errorf("%v allocations, want at most %d", got, n)
	}
}
