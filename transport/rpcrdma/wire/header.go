package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Versions of the protocol: values of rdma_vers.
const (
	Version1 = 1
	Version2 = 2
)

// Proc is rdma_proc (RFC 8166 section 4.2.4; the draft, section 7.2).
type Proc uint32

const (
	ProcMsg   Proc = 0 // the RPC message follows the header
	ProcNoMsg Proc = 1 // the RPC message is in a chunk
	ProcMsgP  Proc = 2 // version 1 only: as ProcMsg, padded (RFC 5666 section 3.9; dropped by RFC 8166)
	ProcDone  Proc = 3 // version 1 only: RFC 5666 section 3.8
	ProcError Proc = 4

	// Version 2 only.
	ProcOptional Proc = 5
	ProcConnProp Proc = 6
	ProcReqProp  Proc = 7
	ProcResProp  Proc = 8
	ProcUpdProp  Proc = 9
)

// FixedLen is the length of a Header (RFC 8166 section 4.1).
const FixedLen = 16

// Header is the four words that every message of every version begins with.
type Header struct {
	XID     uint32
	Version uint32
	Credits uint32
	Proc    Proc
}

// Fixed returns h itself: of a message, the Header that it embeds.
func (h *Header) Fixed() *Header { return h }

func (h *Header) append(w *xdr.Writer) {
	w.Uint32(h.XID)
	w.Uint32(h.Version)
	w.Uint32(h.Credits)
	w.Uint32(uint32(h.Proc))
}

// Message is a message of one type. Parse decodes the message that b begins with, and returns the length of its
// header; what follows is the RPC message of ProcMsg. ParseHeader has accepted b, and named the type. Errors are
// *ParseError; the message then holds its Header, and nothing else to be relied on.
type Message interface {
	Fixed() *Header
	Append(w *xdr.Writer)
	Parse(b []byte) (n int, err error)
}

// Versions is a range of protocol versions.
type Versions struct{ Low, High uint32 }

// AllVersions are those that this package has.
var AllVersions = Versions{Version1, Version2}

// Has reports whether v is in the range.
func (r Versions) Has(v uint32) bool { return r.Low <= v && v <= r.High }

// ParseError says why a peer's header was refused. It wraps transport.ErrProtocol.
type ParseError struct {
	// Header is valid if Fixed is set.
	Header Header
	Fixed  bool
	// Direction is what a message of version 2 says of itself, DirCall unless it came to that.
	Direction Direction
	// Answer is the error that a responder owes the peer, or 0 if none, Fault what belongs to it.
	Answer ErrCode
	Fault  Fault
	Why    string
}

func (e *ParseError) Error() string { return "bad RPC-over-RDMA header: " + e.Why }

func (e *ParseError) Unwrap() error { return transport.ErrProtocol }

// refuse is the error of a message whose Header is h. An error is never answered with an error.
func (h *Header) refuse(answer ErrCode, why string) *ParseError {
	if h.Proc == ProcError {
		answer = 0
	}
	return &ParseError{Header: *h, Fixed: true, Answer: answer, Why: why}
}

// ParseHeader decodes the Header of a message, whose version must be one of the versions accepted and have
// such a message. Errors are *ParseError.
func ParseHeader(b []byte, accepted Versions) (h Header, err error) {
	if len(b) < FixedLen {
		return Header{}, &ParseError{Why: fmt.Sprintf("%d bytes are too few", len(b))}
	}
	h.parse(b)
	switch {
	case !accepted.Has(h.Version):
		return h, h.refuse(ErrVers, fmt.Sprintf("version %d", h.Version))
	case h.Version == Version1 && h.Proc > ProcError:
		return h, h.refuse(ErrChunk, fmt.Sprintf("unknown procedure %d", h.Proc))
	case h.Version != Version1 && (h.Proc > ProcUpdProp || h.Proc == ProcMsgP || h.Proc == ProcDone):
		return h, h.refuse(ErrInvalProc, fmt.Sprintf("unknown procedure %d", h.Proc))
	}
	return h, nil
}

func (h *Header) parse(b []byte) {
	h.XID, h.Version = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	h.Credits, h.Proc = binary.BigEndian.Uint32(b[8:]), Proc(binary.BigEndian.Uint32(b[12:]))
}

// body starts reading what follows the Header, which it decodes into h.
func (h *Header) body(b []byte) (r xdr.Reader) {
	h.parse(b)
	r.Reset(b, nil)
	r.Fixed(FixedLen)
	return r
}

// parsed ends a Parse that has read r.
func (h *Header) parsed(r *xdr.Reader, dir Direction) (int, error) {
	err := r.Err()
	if err == nil {
		return r.Offset(), nil
	}
	answer := ErrChunk // of version 2: ErrBadXDR
	if h.Version == Version2 && dir == DirReply {
		answer = 0 // only requests are answered with errors (the draft, section 7.2.4)
	}
	e := h.refuse(answer, err.Error())
	e.Direction = dir
	return 0, e
}

// Parse decodes a message of whatever type. It allocates: see the package comment for messages that are not rare.
func Parse(b []byte, accepted Versions) (m Message, n int, err error) {
	h, err := ParseHeader(b, accepted)
	if err != nil {
		return nil, 0, err
	}
	switch h.Proc {
	case ProcMsg, ProcNoMsg:
		m = &Msg{}
	case ProcMsgP:
		m = &MsgP{}
	case ProcDone:
		m = &Done{}
	case ProcError:
		m = &Error{}
	case ProcOptional:
		m = &Optional{}
	case ProcConnProp:
		m = &ConnProp{}
	case ProcReqProp:
		m = &ReqProp{}
	case ProcResProp:
		m = &ResProp{}
	default:
		m = &UpdProp{}
	}
	n, err = m.Parse(b)
	return m, n, err
}

// Encode encodes m into buf, which has room for it.
func Encode(buf []byte, m Message) []byte {
	var w xdr.Writer
	w.Reset(buf, nil)
	m.Append(&w)
	return w.Bytes()
}
