package requester

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// Corners are those of RFC 5666 that a requester can be configured to have.
type Corners struct {
	// Padding says when calls are sent as RDMA_MSGP. Unpadded is set once the responder has refused one.
	Padding  rfc5666.Padding
	Unpadded *atomic.Bool
	// Peer is what Log calls the responder.
	Log  *slog.Logger
	Peer string
	// ReadReplies is that of plan.Terms. Reads is how many RDMA Reads of so many bytes at most the responder serves at a time.
	ReadReplies bool
	Reads       func() int
	MaxMessage  int
}

// corners are those that a requester has.
type corners struct {
	*Requester
	Corners
	// undone has room for every slot; it is nil unless replies come by read chunks.
	undone chan *slot
	// fetches are what of the slots, by their index, is for such replies; Requester.mu guards them.
	fetches []fetching
}

func newCorners(r *Requester, of *Corners) *corners {
	c := &corners{Requester: r, Corners: *of}
	if of.ReadReplies {
		c.undone, c.fetches = make(chan *slot, len(r.all)), make([]fetching, len(r.all))
	}
	return c
}

func (r *corners) appendHeader(s *slot) { r.Padding.Append(&s.hw, &s.request) }

// encode encodes the call again, padded, if that is wanted and fits.
func (r *corners) encode(s *slot, xid uint32, c *transport.Call) {
	want := r.Padding
	if want.Align == 0 || s.terms.Version != wire.Version1 || s.plan.Call != plan.CallInline || r.Unpadded.Load() || !want.Concerns(s.shape.Send) {
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

// refused reports whether err is the responder's refusal of a call for no
// other reason than that it was padded, and takes care that none is any more.
func (r *corners) refused(s *slot, err error) bool {
	if !s.plan.Padded || err == nil {
		return false
	}
	var re *ReplyError
	if !errors.As(err, &re) || re.Code != wire.ErrChunk {
		return false
	}
	if !r.Unpadded.Swap(true) {
		r.Log.Warn(fmt.Sprintf("%s answers padded calls (RDMA_MSGP) with ERR_CHUNK, as RFC 8166 has servers do: "+
			"calls are sent unpadded from here on, and the option msgp can be left out", r.Peer))
	}
	return true
}
