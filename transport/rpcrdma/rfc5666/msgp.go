package rfc5666

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// RDMA_MSGP (section 3.9) carries a message in which counted opaque data from a threshold on is aligned by padding in
// front of it. The section says "at or above" the threshold in one place and "exceeds" in another: here it is at or above.
// It counts from "the current XDR stream position": the stream here begins with the transport header, which is itself
// XDR, because data is else not aligned in the receiver's buffer, which is the purpose.

// Padding says when calls are sent as RDMA_MSGP: when they travel inline and
// hold a payload of Threshold bytes or more, which then starts at a multiple of
// Align bytes of the message. The zero Padding is never.
type Padding struct{ Align, Threshold int }

// Bounds of Padding. Below 512 bytes a threshold would concern credentials,
// which are of up to 400 bytes.
const (
	MinPadThreshold = 512
	MaxPadAlign     = 4096
)

// Bounded is p within its bounds.
func (p Padding) Bounded() Padding {
	if p.Align <= 0 {
		return p
	}
	return Padding{min(p.Align, MaxPadAlign), max(p.Threshold, MinPadThreshold)}
}

// Concerns reports whether one of the payloads is to be aligned.
func (p Padding) Concerns(payloads []plan.Item) bool {
	for _, it := range payloads {
		if it.Len >= p.Threshold {
			return true
		}
	}
	return false
}

// After is p for a stream that follows a header of n bytes.
func (p Padding) After(n int) *Alignment {
	return &Alignment{Base: n, Align: p.Align, Threshold: p.Threshold}
}

// Append appends the header m to w, as that of a padded message.
func (p Padding) Append(w *xdr.Writer, m *wire.Msg) {
	m.Proc = wire.ProcMsgP
	padded := wire.MsgP{Msg: *m, Align: uint32(p.Align), Threshold: uint32(p.Threshold)}
	padded.Append(w)
}

// Parse parses the header that in begins with into m, whose lists it reuses, and returns how what follows is padded.
func Parse(m *wire.Msg, in []byte) (n int, a *Alignment, err error) {
	padded := wire.MsgP{Msg: *m}
	n, err = padded.Parse(in)
	*m = padded.Msg
	return n, &Alignment{Base: n, Align: int(padded.Align), Threshold: int(padded.Threshold)}, err
}
