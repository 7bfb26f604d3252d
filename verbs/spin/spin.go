package spin

import (
	"cmp"
	"time"
)

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
	// misses is how many polls missed, less those that hit since, within 0 and maxMisses; the next skip waits are not polled.
	misses, skip uint
	hits, polled uint64
	// idle and limit are the package's, but in tests.
	idle  func() bool
	limit time.Duration
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
	limit := cmp.Or(s.limit, limit)
	if !s.idle() {
		return false
	}
	s.polled++
	start := time.Now()
	for last := time.Duration(0); ; {
		if try() {
			s.hits++
			s.misses = max(s.misses, 1) - 1
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

// Counts is how many waits were polled with success, and how many without.
func (s *Spin) Counts() (hits, misses uint64) { return s.hits, s.polled - s.hits }
