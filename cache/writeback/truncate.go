package writeback

import "math"

// BeginTruncate holds off later writes. Truncate must follow, until it says Done,
// or DropTruncate. It says false if another truncation is to end before: wait
// until Woken.
func (f *File) BeginTruncate() bool { return f.try(truncateAsked) }

// Truncate says Done when what was written before was sent and no COMMIT is in
// flight; the SETATTR may then be sent, after which EndTruncate must follow.
func (f *File) Truncate() Step {
	if f.Unsent() {
		// Only COMMITs that find data lost add to it.
		f.urgent = f.seq
		return Wait
	}
	if !f.try(drained) {
		return Wait
	}
	return Done
}

// DropTruncate says that the caller of BeginTruncate has given up before
// Truncate said Done.
func (f *File) DropTruncate() {
	f.must(truncateDropped)
	f.wake = true
}

// Truncated says that the server has cut the file to size, and forgets what lay
// behind it: sent again, it would make the file longer.
func (f *File) Truncated(size int64) {
	f.must(truncated)
	f.replace(size, math.MaxInt64)
}

// EndTruncate says that the SETATTR has ended.
func (f *File) EndTruncate() {
	f.must(truncateEnded)
	f.wake = true
}
