package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// Padding says when calls are sent as RDMA_MSGP.
type Padding = rfc5666.Padding

// corners are those of RFC 5666 that a link can be configured to have.
type corners struct {
	*link
	// undone has room for every slot; it is nil unless replies come by read chunks.
	undone chan *slot
	// fetches are what of the slots, by their index, is for such replies; requester.mu guards them.
	fetches []fetching
}

func newCorners(l *link) corners {
	c := corners{link: l}
	if l.d.cfg.ReadReplies {
		c.undone, c.fetches = make(chan *slot, l.d.cfg.Credits), make([]fetching, l.d.cfg.Credits)
	}
	return c
}

func (l corners) appendHeader(s *slot) { l.d.cfg.Padding.Append(&s.hw, &s.request) }

// encode encodes the call again, padded, if that is wanted and fits.
func (l corners) encode(s *slot, xid uint32, c *transport.Call) {
	want := l.d.cfg.Padding
	if want.Align == 0 || s.terms.Version != Version1 || s.plan.Call != plan.CallInline || l.d.noPadding.Load() || !want.Concerns(s.shape.Send) {
		return
	}
	header := s.plan.HeaderLen + wire.PadLen
	encode := func(before func(off, n int) int) {
		s.cw.Reset(s.call.Bytes(), c.Send)
		s.cw.SetBefore(before)
		oncrpc.AppendCall(&s.cw, xid, c)
	}
	encode(want.After(header).Before)
	if header+s.cw.Len() > s.terms.SendInline {
		encode(nil)
		return
	}
	s.plan.Padded, s.plan.HeaderLen, s.plan.CallLen = true, header, s.cw.Len()
	s.shape.Head = len(s.cw.Bytes())
}

// refused reports whether err is the server's refusal of a call for no
// other reason than that it was padded, and takes care that none is any more.
func (l corners) refused(s *slot, err error) bool {
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
