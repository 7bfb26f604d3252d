package plan

import (
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// CallWay is how a call travels.
type CallWay uint8

const (
	// CallInline: RDMA_MSG with everything in the Send.
	CallInline CallWay = iota + 1
	// CallReadChunk: RDMA_MSG with payloads taken out as read chunks.
	CallReadChunk
	// CallPositionZero: RDMA_NOMSG with the call in a Position-Zero read chunk,
	// and its payloads in it or in read chunks of their own.
	CallPositionZero
)

// ReplyWay is what a call provides for its reply.
type ReplyWay uint8

const (
	// ReplyInline: nothing, the reply fits a receive.
	ReplyInline ReplyWay = iota + 1
	// ReplyWriteList: a write list with a chunk over each Recv payload.
	ReplyWriteList
	// ReplyChunk: a reply chunk that can hold all of the reply.
	ReplyChunk
)

// MaxSegments bounds the segments that are named in a list, but for those of
// padding: what the Linux client uses too. A call of more is copied, a reply of
// more comes in a reply chunk. MaxChunks bounds the chunks of a write list.
const (
	MaxSegments = 16
	MaxChunks   = 4
)

// Set is a set of items, by index. Items beyond the first 64 are in none.
type Set uint64

func (s Set) Has(i int) bool { return s>>i&1 != 0 }

func (s *Set) Add(i int) { *s |= 1 << i }

// Item is a payload as a plan sees it.
type Item struct {
	// Off is xdr.Mark's Off, for Send items.
	Off int
	// Len is the length without padding, Segs the number of segments, no two
	// of which could be one.
	Len, Segs int
}

func (i Item) Padded() int { return i.Len + xdr.Pad(i.Len) }

// Shape is what of a call decides how it and its reply travel.
type Shape struct {
	// Head is the length of the call's stream without its payloads, which
	// Send lists in stream order.
	Head int
	Send []Item
	// ReplyHead bounds the RPC reply message without Recv data.
	ReplyHead int
	Recv      []Item
}

// Terms is what of a connection decides how calls and replies travel.
type Terms struct {
	// Version is the version of the protocol in which both are sent.
	Version uint32
	// SendInline and RecvInline are the inline thresholds of calls and replies
	// (RFC 8166 section 3.3.2), 1024 at least.
	SendInline, RecvInline int
	// NoDDP forbids read chunks other than at Position Zero, and write chunks,
	// as integrity and privacy of RPCSEC_GSS must (RFC 8166 section 8.2.2.3).
	NoDDP bool
	// ReadReplies: nothing is offered for replies, which come by read chunks if
	// they must (RFC 5666 section 3.8).
	ReadReplies bool
	// InlineOnly: nothing is offered for replies, and calls that do not fit cannot be sent.
	InlineOnly bool
	Demands
}

// Demands are what a responder of version 2 has made known, by refusing calls,
// that it needs (the draft, section 7.2.4).
type Demands struct {
	// NoReadChunks and NoWriteChunks forbid read chunks other than at Position
	// Zero, and write chunks.
	NoReadChunks, NoWriteChunks bool
	// MaxSegments bounds the segments of one chunk; 0 is no bound.
	MaxSegments int
	// MinReply, unless it is 0, asks for a reply chunk of as many bytes or more.
	MinReply int
}

// With are the demands d and more together.
func (d Demands) With(more Demands) Demands {
	d.NoReadChunks = d.NoReadChunks || more.NoReadChunks
	d.NoWriteChunks = d.NoWriteChunks || more.NoWriteChunks
	if more.MaxSegments > 0 && (d.MaxSegments == 0 || more.MaxSegments < d.MaxSegments) {
		d.MaxSegments = more.MaxSegments
	}
	d.MinReply = max(d.MinReply, more.MinReply)
	return d
}

// segments reports whether a chunk may have n.
func (d *Demands) segments(n int) bool { return d.MaxSegments == 0 || n <= d.MaxSegments }

// emptyHeader is the length of a header in which all lists are empty.
func (t *Terms) emptyHeader() int { return wire.EmptyLen(t.Version) }

// Plan says how one call and its reply travel.
type Plan struct {
	Call  CallWay
	Reply ReplyWay
	// Reduced are the payloads of Shape.Send that have read chunks.
	Reduced Set
	// Copy is set when a Position-Zero call has too many pieces to be named one
	// by one, so that it must be made one piece.
	Copy bool
	// Written is how many payloads of Shape.Recv have write chunks, with
	// ReplyWriteList: the first ones, because a chunk's number says whose it is.
	// An empty one has a chunk of no segments; where a length is no multiple of
	// four, the chunk ends with a segment for the padding.
	Written int
	// Padded is set when an inline call is sent as RDMA_MSGP.
	Padded bool
	// HeaderLen is the exact length of the call's transport header.
	HeaderLen int
	// CallLen is the length of the whole call with payloads and padding.
	CallLen int
	// ReplyLen is the length of the reply chunk, with ReplyChunk.
	ReplyLen int
}

// Make chooses, with the fewest bytes moved by RDMA that the inline
// thresholds allow. A call with one payload in a head of the usual size gets
// what the Linux client offers as well, at most one chunk in a list, and no call
// gets a write list together with a reply chunk.
//
// Padding is left out of read chunks (RFC 8166 section 3.4.5.2). Responders
// must not write it into write chunks (section 3.4.6.2), but ones of RFC 5666
// do; so that they do not overrun a payload whose length is no multiple of
// four, its chunk ends with a segment of scratch memory for the padding.
func Make(s *Shape, t Terms) Plan {
	p := Plan{HeaderLen: t.emptyHeader()}
	p.HeaderLen += p.planReply(s, t)
	p.HeaderLen += p.planCall(s, t)
	return p
}

// planReply chooses what is provided for the reply and returns how many bytes
// that adds to the header of the call; in the reply's header it is as many.
func (p *Plan) planReply(s *Shape, t Terms) int {
	whole, chunks, segs, n := s.ReplyHead, 0, 0, 0
	for i, it := range s.Recv {
		whole += it.Padded()
		if it.Len > 0 {
			chunks = i + 1
		}
	}
	if t.emptyHeader()+whole <= t.RecvInline && t.MinReply == 0 || t.ReadReplies || t.InlineOnly {
		p.Reply = ReplyInline
		return 0
	}
	direct := chunks > 0 && chunks <= MaxChunks && !t.NoDDP && !t.NoWriteChunks && t.MinReply == 0
	for _, it := range s.Recv[:chunks] {
		segs += it.Segs
		chunk := it.Segs
		if xdr.Pad(it.Len) > 0 {
			chunk++
		}
		direct = direct && t.segments(chunk)
		n += wire.WriteChunkLen(chunk)
	}
	if direct && segs <= MaxSegments &&
		t.emptyHeader()+n+s.ReplyHead <= t.RecvInline {
		p.Reply, p.Written = ReplyWriteList, chunks
		return n
	}
	p.Reply, p.ReplyLen = ReplyChunk, max(whole+xdr.Pad(whole), t.MinReply)
	return wire.ReplyChunkLen(1)
}

// planCall chooses how the call travels, given the header's length without a
// read list, and returns how many bytes the read list adds. Payloads are taken
// out of the call, the largest first, until it fits.
func (p *Plan) planCall(s *Shape, t Terms) int {
	p.CallLen = s.Head
	for _, it := range s.Send {
		p.CallLen += it.Padded()
	}
	if p.HeaderLen+p.CallLen <= t.SendInline {
		p.Call = CallInline
		return 0
	}
	rest, segs := p.CallLen, 0
	for !t.NoDDP && !t.NoReadChunks && rest > s.Head {
		largest := -1
		for i, it := range s.Send[:min(len(s.Send), 64)] {
			if it.Len > 0 && t.segments(it.Segs) && !p.Reduced.Has(i) && (largest < 0 || it.Len > s.Send[largest].Len) {
				largest = i
			}
		}
		if largest < 0 || segs+s.Send[largest].Segs > MaxSegments {
			break
		}
		p.Reduced.Add(largest)
		segs += s.Send[largest].Segs
		rest -= s.Send[largest].Padded()
		if p.HeaderLen+wire.ReadListLen(segs)+rest <= t.SendInline {
			p.Call = CallReadChunk
			return wire.ReadListLen(segs)
		}
	}
	p.Call = CallPositionZero
	if rest == s.Head && segs < MaxSegments {
		return wire.ReadListLen(1 + segs)
	}
	p.Reduced = 0
	pieces := s.Pieces(0)
	if pieces > MaxSegments || !t.segments(pieces) {
		p.Copy, pieces = true, 1
	}
	return wire.ReadListLen(pieces)
}

// Pieces is the number of segments of a call without its reduced payloads: the
// stretches of the head before, between and after the payloads, to which the
// padding belongs, and the payloads' own.
func (s *Shape) Pieces(reduced Set) int {
	n, at, pad := 0, 0, 0
	for i, it := range s.Send {
		if it.Len == 0 || reduced.Has(i) {
			continue
		}
		if it.Off > at || pad > 0 {
			n++
		}
		n += it.Segs
		at, pad = it.Off, xdr.Pad(it.Len)
	}
	if s.Head > at || pad > 0 {
		n++
	}
	return n
}

// StreamLen is the length of the buffer in which the call's stream is laid out,
// with the padding of payloads that are in the stream, and with Copy the
// payloads.
func (p *Plan) StreamLen(s *Shape) int {
	if p.Copy {
		return p.CallLen
	}
	n := s.Head
	for i, it := range s.Send {
		if !p.Reduced.Has(i) {
			n += xdr.Pad(it.Len)
		}
	}
	return n
}
