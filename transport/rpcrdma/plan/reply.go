package plan

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Kind is how a reply travels.
type Kind uint8

const (
	Inline   Kind = iota
	Long          // as RDMA_NOMSG, in the reply chunk
	Refused       // it fits nowhere
	Read          // inline, with payloads in read chunks
	ReadLong      // as RDMA_NOMSG, in a read chunk at Position Zero, and others
)

// InStream as an element of Reply.Into: that payload stays in the stream.
const InStream = -1

// Reply says how a reply travels: payload mark i goes into write chunk
// Into[i]; Stream is the length of what is left.
type Reply struct {
	Kind   Kind
	Into   []int
	Stream int
	// Why is set with Refused.
	Why *Refusal
	// Exposed is the number of read segments.
	Exposed int
}

// ForReply decides how a reply travels. l holds the chunks that the client
// offered, header is the length of the transport header, head that of the
// stream without payloads, and room the most that one message may hold.
//
// Write chunks are used in order, one for each payload; one of no segments
// asks for its payload inline (RFC 8166 section 4.3.2). A reply that fits
// inline goes inline even if a reply chunk was supplied, as section 4.3.3
// allows: one RDMA Write fewer, and clients have to accept both.
func ForReply(into []int, l *wire.Lists, marks []xdr.Mark, header, head, room int) Reply {
	p := Reply{Into: into[:0], Stream: head}
	for i, m := range marks {
		if i < len(l.Write) && len(l.Write[i]) > 0 {
			if m.Len > l.Write[i].Len() {
				return p.refuse(wire.ErrWriteResource, wire.Fault{Index: uint32(i + 1), Needed: uint32(m.Len)},
					"payload of %d bytes for a write chunk of %d", m.Len, l.Write[i].Len())
			}
			p.Into = append(p.Into, i)
			continue
		}
		p.Into = append(p.Into, InStream)
		p.Stream += m.Len + xdr.Pad(m.Len)
	}
	switch {
	case header > room:
		return p.refuse(wire.ErrBadXDR, wire.Fault{}, "chunk lists whose return takes %d bytes of %d", header, room)
	case p.Stream <= room-header:
		p.Kind = Inline
	case p.Stream <= l.Reply.Len():
		p.Kind = Long
	default:
		return p.refuse(wire.ErrReplyResource, wire.Fault{Needed: uint32(p.Stream)},
			"reply of %d bytes for a reply chunk of %d", p.Stream, l.Reply.Len())
	}
	return p
}

func (p Reply) refuse(code wire.ErrCode, fault wire.Fault, format string, args ...any) Reply {
	p.Kind, p.Why = Refused, Refuse(code, fault, format, args...)
	return p
}
