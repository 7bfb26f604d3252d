package rpcrdma

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Version1 is the rdma_vers of RFC 8166.
const Version1 = 1

// Proc is rdma_proc (RFC 8166 section 4.2.4).
type Proc uint32

const (
	Msg   Proc = 0 // the RPC message follows the header
	NoMsg Proc = 1 // the RPC message is in a chunk
	MsgP  Proc = 2 // as Msg, padded (RFC 5666 section 3.8; dropped by RFC 8166)
	Done  Proc = 3 // RFC 5666 section 3.8
	Error Proc = 4
)

// ErrCode is rdma_err (RFC 8166 section 4.5).
type ErrCode uint32

const (
	ErrVers  ErrCode = 1
	ErrChunk ErrCode = 2
)

// FixedHeaderLen is the length of the four words that start every header of
// every version, EmptyHeaderLen that of a version 1 header with empty lists.
const (
	FixedHeaderLen = 16
	EmptyHeaderLen = 28
)

// Header is a transport header of version 1 (RFC 8166 section 4).
type Header struct {
	XID     uint32
	Version uint32
	Credits uint32
	Proc    Proc
	// Align and Threshold belong to MsgP.
	Align, Threshold uint32
	// Lists belong to Msg, NoMsg and MsgP.
	Lists Lists
	// Err belongs to Error; Low and High to ErrVers.
	Err       ErrCode
	Low, High uint32
}

// HeaderError says why a peer's header was refused. It wraps
// transport.ErrProtocol. XID and Version are valid if Fixed is set; Answer is
// the error that a responder owes the peer, or 0 if none.
type HeaderError struct {
	XID, Version uint32
	Fixed        bool
	Answer       ErrCode
	Why          string
}

func (e *HeaderError) Error() string { return "bad RPC-over-RDMA header: " + e.Why }

func (e *HeaderError) Unwrap() error { return transport.ErrProtocol }

// Append encodes h at the end of w.
func (h *Header) Append(w *xdr.Writer) {
	w.Uint32(h.XID)
	w.Uint32(h.Version)
	w.Uint32(h.Credits)
	w.Uint32(uint32(h.Proc))
	switch h.Proc {
	case MsgP:
		w.Uint32(h.Align)
		w.Uint32(h.Threshold)
		h.Lists.append(w)
	case Msg, NoMsg:
		h.Lists.append(w)
	case Error:
		w.Uint32(uint32(h.Err))
		if h.Err == ErrVers {
			w.Uint32(h.Low)
			w.Uint32(h.High)
		}
	}
}

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

// ParseHeader decodes the header at the start of b into h, whose lists it
// reuses, and returns the header's length. What follows it in b is the RPC
// message of Msg. Errors are *HeaderError; h then holds the fixed fields if
// there were any, and no lists to be relied on.
func ParseHeader(b []byte, h *Header) (int, error) {
	var r xdr.Reader
	r.Reset(b, nil, nil)
	*h = Header{Lists: Lists{Read: h.Lists.Read[:0], Write: h.Lists.Write[:0], store: h.Lists.store[:0]}}
	h.XID, h.Version, h.Credits, h.Proc = r.Uint32(), r.Uint32(), r.Uint32(), Proc(r.Uint32())
	if r.Err() != nil {
		return 0, &HeaderError{Why: fmt.Sprintf("%d bytes are too few", len(b))}
	}
	fail := func(answer ErrCode, format string, args ...any) (int, error) {
		return 0, &HeaderError{XID: h.XID, Version: h.Version, Fixed: true, Answer: answer, Why: fmt.Sprintf(format, args...)}
	}
	if h.Version != Version1 {
		return fail(ErrVers, "version %d", h.Version)
	}
	switch h.Proc {
	case MsgP:
		h.Align, h.Threshold = r.Uint32(), r.Uint32()
		h.Lists.parse(&r)
	case Msg, NoMsg:
		h.Lists.parse(&r)
	case Error:
		h.Err = ErrCode(r.Uint32())
		switch {
		case h.Err == ErrVers:
			h.Low, h.High = r.Uint32(), r.Uint32()
		case h.Err != ErrChunk && r.Err() == nil:
			return fail(0, "unknown error code %d", h.Err)
		}
	case Done:
	default:
		return fail(ErrChunk, "unknown procedure %d", h.Proc)
	}
	if err := r.Err(); err != nil {
		answer := ErrChunk
		if h.Proc == Error {
			answer = 0 // an error is never answered with an error
		}
		return fail(answer, "%v", err)
	}
	if h.Proc == NoMsg && len(h.Lists.Read) == 0 && len(h.Lists.Write) == 0 && h.Lists.Reply == nil {
		return fail(ErrChunk, "no chunk holds the message") // section 4.5.2
	}
	return r.Offset(), nil
}

func (l *Lists) parse(r *xdr.Reader) {
	for r.Bool() {
		if len(l.Read) == MaxReadSegments {
			r.Fail("more than %d read segments", MaxReadSegments)
			return
		}
		s := ReadSegment{Position: r.Uint32()}
		s.Segment.parse(r)
		if s.Position%4 != 0 { // section 3.4.5
			r.Fail("read segment at position %d", s.Position)
		}
		l.Read = append(l.Read, s)
	}
	for r.Bool() {
		if len(l.Write) == MaxWriteChunks {
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
	n := r.Count(min(MaxChunkSegments, r.Remaining()/segmentLen))
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
