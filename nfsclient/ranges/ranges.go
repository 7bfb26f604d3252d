// Package ranges is the set of byte ranges that one owner has locked in one file,
// split and joined as POSIX has it (IEEE 1003.1, fcntl).
//
// It owns that arithmetic, for the clients, the cache and the embedded server. It
// refuses to know of owners, protocols and requests: two ranges conflict or not. It
// imports nothing of this module.
//
// Invariants: the ranges of a Set are in order and do not overlap; neighbours that
// touch differ in kind. A Set belongs to one goroutine at a time.
package ranges

import "math"

// End is the Last of a range to the end of the file, wherever that comes to be.
const End = math.MaxUint64

// Range is the bytes from First to Last.
type Range struct {
	First, Last uint64
	Exclusive   bool
}

// Overlaps reports whether r and the bytes from first to last have one in common.
func (r Range) Overlaps(first, last uint64) bool { return r.First <= last && first <= r.Last }

// Conflicts reports whether two owners cannot have r and o locked at once.
func (r Range) Conflicts(o Range) bool {
	return r.Overlaps(o.First, o.Last) && (r.Exclusive || o.Exclusive)
}

// Set is what one owner has locked in one file.
type Set []Range

// Lock returns s with r locked as r says, whatever was locked there before. Neither
// Lock nor Unlock changes s.
func (s Set) Lock(r Range) Set { return s.replace(r.First, r.Last, &r) }

// Unlock returns s without the bytes from first to last.
func (s Set) Unlock(first, last uint64) Set { return s.replace(first, last, nil) }

// replace puts r, or nothing, in place of the bytes from first to last.
func (s Set) replace(first, last uint64, r *Range) Set {
	out := make(Set, 0, len(s)+2)
	for _, o := range s {
		if o.First < first {
			out = out.join(Range{o.First, min(o.Last, first-1), o.Exclusive})
		}
		if r != nil && o.Last >= first {
			out, r = out.join(*r), nil
		}
		if o.Last > last {
			out = out.join(Range{max(o.First, last+1), o.Last, o.Exclusive})
		}
	}
	if r != nil {
		out = out.join(*r)
	}
	return out
}

// join appends r, which lies behind all of s.
func (s Set) join(r Range) Set {
	if n := len(s) - 1; n >= 0 && s[n].Last+1 == r.First && s[n].Exclusive == r.Exclusive {
		s[n].Last = r.Last
		return s
	}
	return append(s, r)
}

// Within is what s has of the bytes from first to last.
func (s Set) Within(first, last uint64) (in Set) {
	for _, r := range s {
		if r.Overlaps(first, last) {
			in = append(in, Range{max(r.First, first), min(r.Last, last), r.Exclusive})
		}
	}
	return in
}

// Gaps is what s lacks of the bytes from first to last, as ranges that are not
// exclusive.
func (s Set) Gaps(first, last uint64) (gaps Set) {
	for _, r := range s.Within(first, last) {
		if r.First > first {
			gaps = append(gaps, Range{First: first, Last: r.First - 1})
		}
		if r.Last == last {
			return gaps
		}
		first = r.Last + 1
	}
	return append(gaps, Range{First: first, Last: last})
}

// Conflict is the first range of s that another owner's r cannot stand beside.
func (s Set) Conflict(r Range) (Range, bool) {
	for _, o := range s {
		if o.Conflicts(r) {
			return o, true
		}
	}
	return Range{}, false
}
