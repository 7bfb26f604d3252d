package plan

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Replies by read chunks (RFC 5666 section 3.8).

// InRead as an element of Reply.Into: that payload has a read chunk.
const InRead = -2

// Exposed replans a reply that fits nowhere: payloads that were to stay in
// the stream get read chunks, and if it still does not fit, the stream gets one
// at Position Zero. segs is the number of segments of a payload, most bounds those of the reply.
func Exposed(p Reply, marks []xdr.Mark, segs func(xdr.Mark) int, most, header, head, room int) Reply {
	if len(p.Into) < len(marks) {
		return p // a payload exceeds its write chunk
	}
	n := 0
	for i, m := range marks {
		if p.Into[i] == InStream && m.Len > 0 {
			p.Into[i] = InRead
			n += segs(m)
		}
	}
	p.Stream = head
	switch {
	case n <= most && header+wire.ReadListLen(n)+head <= room:
		p.Kind, p.Exposed = Read, n
	case n < most && header+wire.ReadListLen(n+1) <= room:
		p.Kind, p.Exposed = ReadLong, n+1
	}
	return p
}
