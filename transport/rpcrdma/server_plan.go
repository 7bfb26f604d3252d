package rpcrdma

import (
	"fmt"
	"math"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// chunkAlign is where pulled chunks start in the memory leased for a call.
const chunkAlign = 64

// pulledChunk is one read chunk of a call: segments [First,Last) of the read
// list, Len bytes, which stand at Pos of the unreduced stream and will be
// pulled to Off of the leased memory.
type pulledChunk struct {
	Pos, First, Last int
	Off, Len         int
}

// maxReadChunks is how many read chunks a call may have.
const maxReadChunks = 64

// refusal says why a call is not carried out, and with what error of version 2
// it is answered; version 1 has ErrChunk for all of them. It wraps
// transport.ErrProtocol.
type refusal struct {
	code  wire.ErrCode
	fault wire.Fault
	why   string
}

func (e *refusal) Error() string { return e.why }

func (e *refusal) Unwrap() error { return transport.ErrProtocol }

func refuseCall(code wire.ErrCode, fault wire.Fault, format string, args ...any) *refusal {
	return &refusal{code: code, fault: fault, why: fmt.Sprintf(format, args...)}
}

// chunkError refuses a call whose chunks make no sense.
func chunkError(format string, args ...any) error {
	return refuseCall(wire.ErrBadXDR, wire.Fault{}, format, args...)
}

// roundedUpBy tells whether s is the roundup of chunk k as a chunk of its own,
// which RFC 5666 section 3.7 lets senders make of it.
func (k *pulledChunk) roundedUpBy(s wire.ReadSegment) bool {
	pad := xdr.Pad(k.Len)
	return pad > 0 && int(s.Position) == k.Pos+k.Len && int(s.Length) == pad
}

// planPull checks a call's read list (RFC 8166 section 3.4.5) and lays its
// chunks out in memory. inline is the number of bytes that follow the header;
// limit bounds the bytes pulled. It appends to dst and returns how much memory
// the chunks need. A call that it refuses is owed ERR_CHUNK.
func planPull(dst []pulledChunk, h *wire.Msg, inline, limit int) ([]pulledChunk, int, error) {
	list := h.Lists.Read
	for i, s := range list {
		if s.Offset > math.MaxUint64-uint64(s.Length) {
			return dst, 0, chunkError("read segment of %d bytes wraps around at %#x", s.Length, s.Offset)
		}
		switch {
		case i > 0 && s.Position == list[i-1].Position:
		case i > 0 && dst[len(dst)-1].roundedUpBy(s):
		case s.Position%4 != 0:
			return dst, 0, chunkError("read chunk at misaligned position %d", s.Position)
		default:
			dst = append(dst, pulledChunk{Pos: int(s.Position), First: i})
		}
		k := &dst[len(dst)-1]
		k.Last = i + 1
		k.Len += int(s.Length)
	}
	// end is how far the unreduced stream is known to reach: what is inline,
	// and the chunks before the one being looked at.
	end, next := inline, 0
	if h.Proc == wire.ProcNoMsg {
		if len(dst) == 0 || dst[0].Pos != 0 || dst[0].Len == 0 {
			return dst, 0, chunkError("RDMA_NOMSG without a Position-Zero chunk")
		}
		end = 0
	}
	total := 0
	for i := range dst {
		k := &dst[i]
		switch zero := h.Proc == wire.ProcNoMsg && i == 0; {
		case zero:
			end = k.Len
		case k.Pos == 0:
			return dst, 0, chunkError("Position-Zero chunk in a call that is not RDMA_NOMSG or not first")
		case k.Pos < next || k.Pos > end:
			return dst, 0, chunkError("read chunk at position %d, want %d to %d", k.Pos, next, end)
		default:
			next = k.Pos + k.Len + xdr.Pad(k.Len)
			end += k.Len + xdr.Pad(k.Len)
		}
		k.Off = roundUp(total, chunkAlign)
		total = k.Off + k.Len
		if total > limit {
			return dst, 0, chunkError("call of more than %d bytes", limit)
		}
	}
	return dst, total, nil
}

// replyKind is how a reply travels.
type replyKind uint8

const (
	replyInline   replyKind = iota
	replyLong               // as RDMA_NOMSG, in the reply chunk
	replyRefused            // it fits nowhere
	replyRead               // inline, with payloads in read chunks
	replyReadLong           // as RDMA_NOMSG, in a read chunk at Position Zero, and others
)

// inStream as an element of replyPlan.Into: that payload stays in the stream.
const inStream = -1

// replyPlan says how a reply travels: payload mark i goes into write chunk
// Into[i]; Stream is the length of what is left.
type replyPlan struct {
	Kind   replyKind
	Into   []int
	Stream int
	// Why is set with replyRefused.
	Why *refusal
	// Exposed is the number of read segments.
	Exposed int
}

// planReply decides how a reply travels. l holds the chunks that the client
// offered, header is the length of the transport header, head that of the
// stream without payloads, and room the most that one message may hold.
//
// Write chunks are used in order, one for each payload; one of no segments
// asks for its payload inline (RFC 8166 section 4.3.2). A reply that fits
// inline goes inline even if a reply chunk was supplied, as section 4.3.3
// allows: one RDMA Write fewer, and clients have to accept both.
func planReply(into []int, l *wire.Lists, marks []xdr.Mark, header, head, room int) replyPlan {
	p := replyPlan{Into: into[:0], Stream: head}
	for i, m := range marks {
		if i < len(l.Write) && len(l.Write[i]) > 0 {
			if m.Len > l.Write[i].Len() {
				return p.refuse(wire.ErrWriteResource, wire.Fault{Index: uint32(i + 1), Needed: uint32(m.Len)},
					"payload of %d bytes for a write chunk of %d", m.Len, l.Write[i].Len())
			}
			p.Into = append(p.Into, i)
			continue
		}
		p.Into = append(p.Into, inStream)
		p.Stream += m.Len + xdr.Pad(m.Len)
	}
	switch {
	case header > room:
		return p.refuse(wire.ErrBadXDR, wire.Fault{}, "chunk lists whose return takes %d bytes of %d", header, room)
	case p.Stream <= room-header:
		p.Kind = replyInline
	case p.Stream <= l.Reply.Len():
		p.Kind = replyLong
	default:
		return p.refuse(wire.ErrReplyResource, wire.Fault{Needed: uint32(p.Stream)},
			"reply of %d bytes for a reply chunk of %d", p.Stream, l.Reply.Len())
	}
	return p
}

func (p replyPlan) refuse(code wire.ErrCode, fault wire.Fault, format string, args ...any) replyPlan {
	p.Kind, p.Why = replyRefused, refuseCall(code, fault, format, args...)
	return p
}
