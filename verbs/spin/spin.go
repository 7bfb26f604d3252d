package spin

import "time"

const (
	// limit is how long one wait is polled.
	limit = 80 * time.Microsecond
	// maxMisses bounds the exponent of the waits that are left out.
	maxMisses = 10
	// preempted is a time between two polls that says that something else ran.
	preempted = 200 * time.Microsecond
)

// Spin is what is known of the waits on one connection. Its methods are called by one goroutine at a time.
type Spin struct {
	// misses were in a row; the next skip waits are not polled.
	misses, skip uint
	// hits and polled count waits that were polled, for tests.
	hits, polled uint64
	// idle is the package's, but in tests.
	idle func() bool
}

// Poll calls try again and again, until it returns true, if that is likely to happen soon. It reports whether it
// did; else the caller sleeps. try must not block.
func (s *Spin) Poll(try func() bool) bool {
	if s.skip > 0 {
		s.skip--
		return false
	}
	if s.idle == nil {
		s.idle = machine.idle
	}
	if !s.idle() {
		return false
	}
	s.polled++
	start := time.Now()
	for last := time.Duration(0); ; {
		if try() {
			s.hits++
			s.misses = 0
			return true
		}
		now := time.Since(start)
		if now-last > preempted {
			machine.crowded()
		}
		if now >= limit {
			break
		}
		last = now
	}
	s.misses = min(s.misses+1, maxMisses)
	s.skip = 1 << s.misses
	return false
}
