package readahead

// maxRecords bounds how many records of a file that is read by strides are read ahead.
const maxRecords = 32

// stride is how the reads of an open file follow each other, if not as a stream:
// backward, or by records of n bytes that are delta apart.
type stride struct {
	last  int64 // where the last read began
	n     int   // its length
	delta int64 // how far behind the one before it that was
	depth int   // how many records are read ahead, when Striding
	next  int64 // the next one to be read ahead
}

// note takes in a read of n bytes at off and reports whether it is as long as the last
// one, and as far from it as that was from the one before.
// Reads that a stream may consist of do not count.
func (s *stride) note(off int64, n int) bool {
	delta := off - s.last
	if s.n == 0 { // the first read
		delta = 0
	}
	again := s.n == n && s.delta == delta
	s.last, s.n, s.delta = off, n, delta
	gap := int64(n)
	if n >= largeRead {
		gap *= 3
	}
	return again && (delta < 0 || delta > gap)
}

// start begins to read ahead, and deepen reads twice as many records ahead, of most
// bytes together.
func (s *stride) start(most int) {
	s.depth, s.next = 1, s.last+s.delta
	s.deepen(most)
}

func (s *stride) deepen(most int) {
	s.depth = max(1, min(2*s.depth, maxRecords, most/s.n))
	if (s.next-s.last)/s.delta < 1 { // the reader has overtaken
		s.next = s.last + s.delta
	}
}

// Record is the next READ of a file, size long, that is Striding: n bytes at off. Each
// is returned once; n is 0 when there is no more to be read ahead now. Records that
// adjoin, as when a file is read backward, share a READ of up to rsize bytes.
func (w *Window) Record(size, rsize int64) (off int64, n int) {
	s := &w.by
	if w.state != Striding || int64(s.n) > rsize {
		return 0, 0
	}
	length, room := int64(s.n), s.depth-int((s.next-s.last)/s.delta)+1
	k := int64(1)
	if s.delta == -length {
		k = min(rsize/length, int64(s.depth+1)/2)
	}
	off = s.next - (k-1)*length
	switch {
	case int64(room) < k, s.next+length <= 0, k == 1 && s.next < 0, off >= size:
		return 0, 0
	}
	end := min(s.next+length, size)
	s.next += k * s.delta
	off = max(off, 0)
	return off, int(end - off)
}
