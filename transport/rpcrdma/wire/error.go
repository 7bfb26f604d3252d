package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// ErrCode is rdma_err of version 1 (RFC 8166 section 4.5) and rpcrdma2_errcode (the draft, section 7.2.4).
type ErrCode uint32

const (
	ErrVers  ErrCode = 1
	ErrChunk ErrCode = 2 // version 1

	// Version 2.
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

// ErrorLen2 is the length of the shortest Error of version 2: its code alone.
const ErrorLen2 = FixedLen + 4

// Fault is what errors of version 2 tell besides their code.
type Fault struct {
	// Max is the most chunks or segments that the responder takes, with ErrReadChunks, ErrWriteChunks and
	// ErrSegments.
	Max uint32
	// Index is the write chunk, counted from one, that is too small, or zero if that is not known, with
	// ErrWriteResource.
	Index uint32
	// Needed is the number of bytes needed in that write chunk, or, with ErrReplyResource, in the reply chunk.
	Needed uint32
}

// Error is RDMA_ERROR (RFC 8166 section 4.5) and RDMA2_ERROR (the draft, section 7.2.4). Its direction is always that of
// replies (section 7.2.2).
type Error struct {
	Header
	Code ErrCode
	// Low and High belong to ErrVers.
	Low, High uint32
	// Fault is of version 2.
	Fault Fault
}

// Append encodes m. ErrVers is the same in all versions, known ones or not; what else is wrong with a call of version 1
// is wrong with its chunks.
func (m *Error) Append(w *xdr.Writer) {
	m.Header.append(w)
	switch {
	case m.Code == ErrVers:
		w.Uint32(uint32(ErrVers))
		w.Uint32(m.Low)
		w.Uint32(m.High)
	case m.Version == Version1:
		w.Uint32(uint32(ErrChunk))
	default:
		w.Uint32(uint32(m.Code))
		switch m.Code {
		case ErrReadChunks, ErrWriteChunks, ErrSegments:
			w.Uint32(m.Fault.Max)
		case ErrWriteResource:
			w.Uint32(m.Fault.Index)
			w.Uint32(m.Fault.Needed)
		case ErrReplyResource:
			w.Uint32(m.Fault.Needed)
		}
	}
}

func (m *Error) Parse(b []byte) (int, error) {
	*m = Error{}
	r := m.body(b)
	m.Code = ErrCode(r.Uint32())
	switch {
	case m.Code == ErrVers:
		m.Low, m.High = r.Uint32(), r.Uint32()
	case m.Version != Version1:
		m.parseFault(&r)
	case m.Code != ErrChunk && r.Err() == nil:
		return 0, m.refuse(0, fmt.Sprintf("unknown error code %d", m.Code))
	}
	if m.Version == Version1 {
		return m.parsed(&r, DirReply)
	}
	return m.ended(&r, DirReply)
}

func (m *Error) parseFault(r *xdr.Reader) {
	switch m.Code {
	case ErrReadChunks, ErrWriteChunks, ErrSegments:
		m.Fault.Max = r.Uint32()
	case ErrWriteResource:
		m.Fault.Index, m.Fault.Needed = r.Uint32(), r.Uint32()
	case ErrReplyResource:
		m.Fault.Needed = r.Uint32()
	case ErrBadXDR, ErrInvalProc, ErrInvalOption, ErrSystem:
	default:
		r.Fail("unknown error code %d", m.Code)
	}
}
