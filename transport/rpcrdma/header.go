package rpcrdma

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Proc is rdma_proc (RFC 8166 section 4.2.4).
type Proc uint32

const (
	Msg   Proc = 0 // the RPC message follows the header
	NoMsg Proc = 1 // the RPC message is in a chunk
	MsgP  Proc = 2 // as Msg, padded (RFC 5666 section 3.9; dropped by RFC 8166)
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
// every version (RFC 8166 section 4.1).
const FixedHeaderLen = 16

// Header is a transport header as requester and responder see it, whatever its
// version: each version's codec makes it of bytes and bytes of it.
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
	V2
}

// The codec of a version appends what of a Header stands behind the fixed words,
// and parses it, given the fixed part: when that fails without having failed the
// reader, it returns the answer owed, which is 0 for none, and why. The three
// functions below choose one. Being switches, they let readers and writers stay
// on the stack.

// emptyHeaderLen is the length of a header of Msg whose lists are empty.
func emptyHeaderLen(version uint32) int {
	if version == Version2 {
		return EmptyHeaderLen2
	}
	return EmptyHeaderLen
}

func (h *Header) appendBody(w *xdr.Writer) {
	switch h.Version {
	case Version1:
		h.appendV1(w)
	case Version2:
		h.appendV2(w)
	}
}

func (h *Header) parseBody(r *xdr.Reader) *HeaderError {
	if h.Version == Version1 {
		return h.parseV1(r)
	}
	return h.parseV2(r)
}

// HeaderError says why a peer's header was refused. It wraps
// transport.ErrProtocol. XID and Version are valid if Fixed is set; Answer is
// the error that a responder owes the peer, or 0 if none.
type HeaderError struct {
	XID, Version uint32
	Fixed        bool
	Answer       ErrCode
	Fault        Fault // of the answer
	Why          string
}

func (e *HeaderError) Error() string { return "bad RPC-over-RDMA header: " + e.Why }

func (e *HeaderError) Unwrap() error { return transport.ErrProtocol }

func refuse(answer ErrCode, format string, args ...any) *HeaderError {
	return &HeaderError{Answer: answer, Why: fmt.Sprintf(format, args...)}
}

// Append encodes h at the end of w. ErrVers is the same in all versions, known
// ones or not; everything else needs a codec.
func (h *Header) Append(w *xdr.Writer) {
	w.Uint32(h.XID)
	w.Uint32(h.Version)
	w.Uint32(h.Credits)
	w.Uint32(uint32(h.Proc))
	if h.Proc == Error && h.Err == ErrVers {
		w.Uint32(uint32(h.Err))
		w.Uint32(h.Low)
		w.Uint32(h.High)
		return
	}
	h.appendBody(w)
}

// Versions is a range of protocol versions.
type Versions struct{ Low, High uint32 }

// AllVersions are those that there is a codec for; no more may be accepted.
var AllVersions = Versions{Version1, Version2}

// Has tells whether v is in the range.
func (r Versions) Has(v uint32) bool { return r.Low <= v && v <= r.High }

// encode encodes h into buf, which has room for it.
func (h *Header) encode(buf []byte) []byte {
	var w xdr.Writer
	w.Reset(buf, nil)
	h.Append(&w)
	return w.Bytes()
}

// ParseHeader is parseHeader for all versions.
func ParseHeader(b []byte, h *Header) (int, error) { return parseHeader(b, h, AllVersions) }

// parseHeader decodes the header at the start of b, which is to be of one of
// the versions accepted, into h, whose lists it reuses, and returns the
// header's length. What follows it in b is the RPC message of Msg. Errors are
// *HeaderError; h then holds the fixed fields if there were any, and no lists to
// be relied on.
func parseHeader(b []byte, h *Header, accepted Versions) (int, error) {
	var r xdr.Reader
	r.Reset(b, nil, nil)
	*h = Header{Lists: Lists{Read: h.Lists.Read[:0], Write: h.Lists.Write[:0], store: h.Lists.store[:0]}}
	h.XID, h.Version, h.Credits, h.Proc = r.Uint32(), r.Uint32(), r.Uint32(), Proc(r.Uint32())
	if r.Err() != nil {
		return 0, &HeaderError{Why: fmt.Sprintf("%d bytes are too few", len(b))}
	}
	var bad *HeaderError
	if !accepted.Has(h.Version) {
		bad = refuse(ErrVers, "version %d", h.Version)
	} else if bad = h.parseBody(&r); bad == nil && r.Err() != nil {
		bad = refuse(ErrChunk, "%v", r.Err())
	}
	if bad != nil {
		bad.XID, bad.Version, bad.Fixed = h.XID, h.Version, true
		if h.Proc == Error {
			bad.Answer = 0 // an error is never answered with an error
		}
		return 0, bad
	}
	return r.Offset(), nil
}
