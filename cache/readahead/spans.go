package readahead

import "math"

// Buffer is what a span was read into, or is being read into.
type Buffer interface{ Release() }

// Span is a range of a file that is being read, or that has been read ahead. Every
// read of a part of it shares it while it is listed. The bytes of Buf belong to the
// goroutine that fetches them until Fetched; after that neither they nor N and Err
// change.
type Span[B Buffer] struct {
	Off int64
	Ask int // bytes requested
	Buf B

	N   int // bytes there; less than Ask means that the file ended
	Err error

	fetched bool
	done    chan struct{} // closed by Fetched; nil if nobody has joined before
	users   int           // the fetching goroutine, and reads that wait or copy
	taken   int           // bytes delivered
	ahead   bool
	listed  bool
}

// end is where the span ends as far as is known.
func (s *Span[B]) end() int64 {
	if s.fetched {
		return s.Off + int64(s.N)
	}
	return s.Off + int64(s.Ask)
}

// Join adds a user to a span that Find has returned; Leave must follow. It returns what
// Fetched closes, nil if that has been.
func (s *Span[B]) Join() <-chan struct{} {
	s.users++
	if s.done == nil && !s.fetched {
		s.done = make(chan struct{})
	}
	if s.fetched {
		return nil
	}
	return s.done
}

// Users is how many users the span has.
func (s *Span[B]) Users() int { return s.users }

// Fetched sets what the READ returned, and wakes those who have joined.
func (s *Span[B]) Fetched(n int, err error) {
	s.N, s.Err, s.fetched = n, err, true
	if s.done != nil {
		close(s.done)
	}
}

// Spans lists the spans of one file. A buffer is released when its span has no users
// and nothing of it is left to be delivered.
type Spans[B Buffer] struct{ list []*Span[B] }

// Len is how many spans are listed.
func (l *Spans[B]) Len() int { return len(l.list) }

// Add makes s, which is not in use, a span with one user, the goroutine that fetches it,
// and lists it. With ahead it is kept until all of it was delivered.
func (l *Spans[B]) Add(s *Span[B], off int64, ask int, buf B, ahead bool) {
	*s = Span[B]{Off: off, Ask: ask, Buf: buf, users: 1, ahead: ahead, listed: true}
	l.list = append(l.list, s)
}

// Find returns the span that has or will have the byte at off, or nil; next is where
// the nearest one behind off begins.
func (l *Spans[B]) Find(off int64) (found *Span[B], next int64) {
	next = math.MaxInt64
	for _, s := range l.list {
		switch {
		case s.fetched && s.Err != nil:
		case s.Off <= off && off < s.end():
			return s, next
		case s.Off > off:
			next = min(next, s.Off)
		}
	}
	return nil, next
}

// Leave removes a user of s, to whom n bytes of it were delivered, and reports whether s
// is not in use any more.
func (l *Spans[B]) Leave(s *Span[B], n int) (unused bool) {
	s.users--
	s.taken += n
	if s.users > 0 {
		return false
	}
	if s.listed && s.ahead && s.Err == nil && s.taken < s.N {
		return false // not all of it was delivered
	}
	if s.listed {
		l.unlist(s)
	}
	s.Buf.Release()
	return true
}

// Detach makes sure that no later read returns bytes of [off, end) that were read, or
// requested, before now.
func (l *Spans[B]) Detach(off, end int64) {
	for k := 0; k < len(l.list); {
		s := l.list[k]
		if s.Off >= end || s.Off+int64(s.Ask) <= off {
			k++
			continue
		}
		l.drop(s)
	}
}

// Trim drops spans without users while there are more than most bytes of spans.
func (l *Spans[B]) Trim(most int) {
	total := 0
	for _, s := range l.list {
		total += s.Ask
	}
	for k := 0; total > most && k < len(l.list); {
		s := l.list[k]
		if s.users > 0 {
			k++
			continue
		}
		total -= s.Ask
		l.drop(s)
	}
}

// drop takes s from the list.
func (l *Spans[B]) drop(s *Span[B]) {
	l.unlist(s)
	if s.users == 0 {
		s.Buf.Release()
	}
}

func (l *Spans[B]) unlist(s *Span[B]) {
	s.listed = false
	last := len(l.list) - 1
	for k := range l.list {
		if l.list[k] == s {
			l.list[k] = l.list[last]
			l.list[last] = nil
			l.list = l.list[:last]
			return
		}
	}
}
