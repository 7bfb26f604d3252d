package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// The lists are encoded alike in all versions (RFC 8166 section 4.1).

func (l *Lists) append(w *xdr.Writer) {
	for _, s := range l.Read {
		w.Bool(true)
		w.Uint32(s.Position)
		s.Segment.append(w)
	}
	w.Bool(false)
	for _, c := range l.Write {
		w.Bool(true)
		c.append(w)
	}
	w.Bool(false)
	w.Bool(l.Reply != nil)
	if l.Reply != nil {
		l.Reply.append(w)
	}
}

func (c Chunk) append(w *xdr.Writer) {
	w.Uint32(uint32(len(c)))
	for _, s := range c {
		s.append(w)
	}
}

func (s *Segment) append(w *xdr.Writer) {
	w.Uint32(s.Handle)
	w.Uint32(s.Length)
	w.Uint64(s.Offset)
}

// bound is one at which parsing ended: the error of version 2 that says so, and its value.
type bound struct {
	code ErrCode
	max  uint32
}

// parse reuses the memory of l.
func (l *Lists) parse(r *xdr.Reader) (over bound) {
	*l = Lists{Read: l.Read[:0], Write: l.Write[:0], store: l.store[:0]}
	for r.Bool() {
		if len(l.Read) == MaxReadSegments {
			r.Fail("more than %d read segments", MaxReadSegments)
			return bound{ErrSegments, MaxReadSegments}
		}
		s := ReadSegment{Position: r.Uint32()}
		s.Segment.parse(r)
		l.Read = append(l.Read, s)
	}
	for r.Bool() {
		if len(l.Write) == MaxWriteChunks {
			r.Fail("more than %d write chunks", MaxWriteChunks)
			return bound{ErrWriteChunks, MaxWriteChunks}
		}
		l.Write = append(l.Write, l.parseChunk(r, &over))
	}
	if r.Bool() {
		l.Reply = l.parseChunk(r, &over)
	}
	return over
}

// parseChunk keeps the segments in l.store. When that has to grow, chunks
// parsed before keep the memory they have.
func (l *Lists) parseChunk(r *xdr.Reader, over *bound) Chunk {
	n := r.Count(r.Remaining() / segmentLen)
	if n > MaxChunkSegments {
		*over = bound{ErrSegments, MaxChunkSegments}
		r.Fail("more than %d segments", MaxChunkSegments)
		return Chunk{}
	}
	start := len(l.store)
	for range n {
		var s Segment
		s.parse(r)
		l.store = append(l.store, s)
	}
	if n == 0 {
		return Chunk{}
	}
	return Chunk(l.store[start:len(l.store):len(l.store)])
}

func (s *Segment) parse(r *xdr.Reader) {
	s.Handle, s.Length, s.Offset = r.Uint32(), r.Uint32(), r.Uint64()
}

// What lists add to a header in which all are empty (RFC 8166 section 4.7 shows them): for each entry or chunk of a list
// the word that announces it; for each array the word that counts it.

// ReadListLen is for a read list of so many segments.
func ReadListLen(segs int) int { return segs * (4 + 4 + segmentLen) }

// WriteChunkLen is for one chunk of a write list.
func WriteChunkLen(segs int) int { return 4 + 4 + segs*segmentLen }

// ReplyChunkLen is for a reply chunk. The word that announces it takes the place of the one that denies it.
func ReplyChunkLen(segs int) int { return 4 + segs*segmentLen }

const segmentLen = 16
