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
}

// codec is the encoding of one version.
type codec interface {
	// emptyLen is the length of a header of Msg whose lists are empty.
	emptyLen() int
	// append encodes what of h stands behind the fixed words.
	append(w *xdr.Writer, h *Header)
	// parse decodes it, given h's fixed part. When it fails without having
	// failed r, it returns the answer owed, which is 0 for none, and why.
	parse(r *xdr.Reader, h *Header) *HeaderError
}

// codecOf is the encoding of a version, or nil when there is none.
func codecOf(version uint32) codec {
	if version == Version1 {
		return version1{}
	}
	return nil
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
	codecOf(h.Version).append(w, h)
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
	c := codecOf(h.Version)
	var bad *HeaderError
	if c == nil {
		bad = refuse(ErrVers, "version %d", h.Version)
	} else if bad = c.parse(&r, h); bad == nil && r.Err() != nil {
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
