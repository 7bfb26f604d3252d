package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// RDMA_MSGP (RFC 5666 section 3.9) carries a message in which counted opaque
// data from a threshold on is aligned by padding in front of it. The section
// says "at or above" the threshold in one place and "exceeds" in another: here
// it is at or above. It counts from "the current XDR stream position": the
// stream here begins with the transport header, which is itself XDR, because
// data is else not aligned in the receiver's buffer, which is the purpose.

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

// parsePadded parses a message of the type that in begins with into m, whose lists it reuses, and tells how what
// follows is padded.
func parsePadded(m *wire.Msg, in []byte) (n int, p xdr.Padding, err error) {
	padded := wire.MsgP{Msg: *m}
	n, err = padded.Parse(in)
	*m = padded.Msg
	return n, xdr.Padding{Base: n, Align: int(padded.Align), Threshold: int(padded.Threshold)}, err
}

// appendPadded is the header of a padded call.
func (l *link) appendPadded(s *slot) {
	s.request.Proc = wire.ProcMsgP
	m := wire.MsgP{Msg: s.request, Align: uint32(l.d.cfg.Padding.Align), Threshold: uint32(l.d.cfg.Padding.Threshold)}
	m.Append(&s.hw)
}

// encodePadded encodes the call again, padded, if that is wanted and fits.
func (l *link) encodePadded(s *slot, xid uint32, c *transport.Call) {
	want := l.d.cfg.Padding
	if want.Align == 0 || s.terms.Version != Version1 || s.plan.Call != plan.CallInline || l.d.noPadding.Load() {
		return
	}
	large := false
	for _, it := range s.shape.Send {
		large = large || it.Len >= want.Threshold
	}
	if !large {
		return
	}
	header := s.plan.HeaderLen + wire.PadLen
	encode := func(p xdr.Padding) {
		s.cw.Reset(s.call.Bytes(), c.Send)
		s.cw.SetPadding(p)
		oncrpc.AppendCall(&s.cw, xid, c)
	}
	encode(xdr.Padding{Base: header, Align: want.Align, Threshold: want.Threshold})
	if header+s.cw.Len() > s.terms.SendInline {
		encode(xdr.Padding{})
		return
	}
	s.plan.Padded, s.plan.HeaderLen, s.plan.CallLen = true, header, s.cw.Len()
	s.shape.Head = len(s.cw.Bytes())
}

// paddingRefused tells whether err is the server's refusal of a call for no
// other reason than that it was padded, and takes care that none is any more.
func (l *link) paddingRefused(s *slot, err error) bool {
	if !s.plan.Padded || err == nil {
		return false
	}
	var re *ReplyError
	if !errors.As(err, &re) || re.Code != wire.ErrChunk {
		return false
	}
	if !l.d.noPadding.Swap(true) {
		l.d.cfg.Log.Warn(fmt.Sprintf("%s answers padded calls (RDMA_MSGP) with ERR_CHUNK, as RFC 8166 has servers do: "+
			"calls are sent unpadded from here on, and the option msgp can be left out", l.d.cfg.Addr))
	}
	return true
}
