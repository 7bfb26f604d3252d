package rpcrdma

import "github.com/rdmafs/rdmafs/transport/xdr"

// rpcrdma2_errcode (the draft, section 7.2.4). ErrVers is that of version 1,
// ErrBadXDR has the value of ErrChunk.
const (
	ErrBadXDR        ErrCode = 2
	ErrInvalProc     ErrCode = 3
	ErrReadChunks    ErrCode = 4
	ErrWriteChunks   ErrCode = 5
	ErrSegments      ErrCode = 6
	ErrWriteResource ErrCode = 7
	ErrReplyResource ErrCode = 8
	ErrInvalOption   ErrCode = 9
	ErrSystem        ErrCode = 10
)

// errorLen2 is the length of the shortest header of an error: its code alone.
const errorLen2 = FixedHeaderLen + 4

// Fault is what errors of version 2 tell besides their code.
type Fault struct {
	// Max is the most chunks or segments that the responder takes, with
	// ErrReadChunks, ErrWriteChunks and ErrSegments.
	Max uint32
	// Index is the write chunk, counted from one, that is too small, or zero
	// if that is not known, with ErrWriteResource.
	Index uint32
	// Needed is the number of bytes needed in that write chunk, or, with
	// ErrReplyResource, in the reply chunk.
	Needed uint32
}

func (h *Header) appendError2(w *xdr.Writer) {
	w.Uint32(uint32(h.Err))
	switch h.Err {
	case ErrVers:
		w.Uint32(h.Low)
		w.Uint32(h.High)
	case ErrReadChunks, ErrWriteChunks, ErrSegments:
		w.Uint32(h.Fault.Max)
	case ErrWriteResource:
		w.Uint32(h.Fault.Index)
		w.Uint32(h.Fault.Needed)
	case ErrReplyResource:
		w.Uint32(h.Fault.Needed)
	}
}

func (h *Header) parseError2(r *xdr.Reader) {
	h.Err = ErrCode(r.Uint32())
	switch h.Err {
	case ErrVers:
		h.Low, h.High = r.Uint32(), r.Uint32()
	case ErrReadChunks, ErrWriteChunks, ErrSegments:
		h.Fault.Max = r.Uint32()
	case ErrWriteResource:
		h.Fault.Index, h.Fault.Needed = r.Uint32(), r.Uint32()
	case ErrReplyResource:
		h.Fault.Needed = r.Uint32()
	case ErrBadXDR, ErrInvalProc, ErrInvalOption, ErrSystem:
	default:
		r.Fail("unknown error code %d", h.Err)
	}
}
