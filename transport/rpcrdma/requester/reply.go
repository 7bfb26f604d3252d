package requester

import (
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// decode checks the reply in s against what the call offered, and decodes it.
// All keys of the call are invalid by now.
func (r *Requester) decode(s *slot, xid uint32, c *transport.Call) error {
	body, err := s.readReply(r.conn.Buffer(s.buf)[:s.replyLen], c)
	if err != nil {
		if s.fault == nil {
			r.noteUseless()
		}
		return &transport.Error{Fate: transport.Answered, Err: err}
	}
	r.count.Replies.Add(1)
	c.Trip.BytesReceived = len(body)
	if s.reply.Proc == wire.ProcNoMsg {
		r.count.LongReplies.Add(1)
		r.count.Received.Add(uint64(len(body)))
	}
	for _, n := range s.placed {
		if n != layout.Inline {
			r.count.Received.Add(uint64(n))
			c.Trip.BytesReceived += n
		}
	}
	s.r.Reset(body, c.Recv)
	s.layout.Placed = s.placed
	s.layout.LayOut(&s.r)
	return oncrpc.DecodeReply(&s.r, xid, c)
}

// readReply returns the RPC message of the reply in b and sets s.placed.
func (s *slot) readReply(b []byte, c *transport.Call) (body []byte, err error) {
	if s.fault != nil {
		return nil, s.fault
	}
	h := &s.reply
	if len(h.Lists.Read) > 0 && len(s.layout.Chunks) == 0 {
		return nil, badReply("it has a read list") // RFC 8166 section 4.3.1
	}
	if err := s.readWriteList(c); err != nil {
		return nil, err
	}
	long := 0
	if reply := h.Lists.Reply; reply != nil {
		if s.plan.Reply != plan.ReplyChunk {
			return nil, badReply("it has a reply chunk, and none was offered")
		}
		if long, err = returned(reply, s.request.Lists.Reply); err != nil {
			return nil, err
		}
	}
	// A responder may use the reply chunk or not, as it likes: RDMA_MSG with
	// an offered chunk is an inline reply, whatever length the chunk has.
	switch {
	case h.Proc != wire.ProcNoMsg:
		body = b[s.headerLen:]
	case len(s.layout.Chunks) > 0:
		body = s.layout.Chunks[0].Data
		s.layout.Chunks = s.layout.Chunks[1:]
	default:
		body = s.longReply.Bytes()[:long]
	}
	switch xid, reply, ok := oncrpc.PeekXID(body); {
	case !ok || !reply:
		return nil, badReply("%d bytes that are no RPC reply", len(body))
	case xid != h.XID: // RFC 8166 section 4.5.2
		return nil, badReply("header to call %#x, message to call %#x", h.XID, xid)
	}
	return body, nil
}

// readWriteList sets s.placed from the write list of the reply. It may be
// absent, which responders of RFC 5666 take for unused. An unused chunk means
// that the data, if any, is inline (RFC 8166 section 4.3.2.2).
func (s *slot) readWriteList(c *transport.Call) error {
	s.placed = s.placed[:0]
	got, offered := s.reply.Lists.Write, s.request.Lists.Write
	if len(got) == 0 {
		return nil
	}
	if len(got) != len(offered) {
		return badReply("%d write chunks, %d were offered", len(got), len(offered))
	}
	for range c.Recv {
		s.placed = append(s.placed, layout.Inline)
	}
	for i := range got {
		n, err := returned(got[i], offered[i])
		if err != nil {
			return err
		}
		if n > 0 {
			s.placed[i] = n
		}
	}
	return nil
}

// returned is the number of bytes that a returned chunk says were written. It
// must have the segments of the one offered, none longer, and be filled
// without holes (RFC 8166 section 3.4.6).
func returned(got, offered wire.Chunk) (int, error) {
	if len(got) != len(offered) {
		return 0, badReply("chunk of %d segments, %d were offered", len(got), len(offered))
	}
	total, short := 0, false
	for i := range got {
		n, most := got[i].Length, offered[i].Length
		switch {
		case n > most:
			return 0, badReply("segment of %d bytes where %d were offered", n, most)
		case short && n > 0:
			return 0, badReply("chunk with a hole")
		}
		short = short || n < most
		total += int(n)
	}
	return total, nil
}
