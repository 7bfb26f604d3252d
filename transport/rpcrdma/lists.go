package rpcrdma

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

func (l *Lists) parse(r *xdr.Reader) {
	for r.Bool() {
		if len(l.Read) == MaxReadSegments {
			l.over(ErrSegments, MaxReadSegments)
			r.Fail("more than %d read segments", MaxReadSegments)
			return
		}
		s := ReadSegment{Position: r.Uint32()}
		s.Segment.parse(r)
		l.Read = append(l.Read, s)
	}
	for r.Bool() {
		if len(l.Write) == MaxWriteChunks {
			l.over(ErrWriteChunks, MaxWriteChunks)
			r.Fail("more than %d write chunks", MaxWriteChunks)
			return
		}
		l.Write = append(l.Write, l.parseChunk(r))
	}
	if r.Bool() {
		l.Reply = l.parseChunk(r)
	}
}

// parseChunk keeps the segments in l.store. When that has to grow, chunks
// parsed before keep the memory they have.
func (l *Lists) parseChunk(r *xdr.Reader) Chunk {
	n := r.Count(r.Remaining() / segmentLen)
	if n > MaxChunkSegments {
		l.over(ErrSegments, MaxChunkSegments)
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
