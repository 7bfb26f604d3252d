package plan

import (
	"math"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Align is where pulled chunks start in the memory leased for a call.
const Align = 64

// Pulled is one read chunk of a call: segments [First,Last) of the read
// list, Len bytes, which stand at Pos of the unreduced stream and will be
// pulled to Off of the leased memory.
type Pulled struct {
	Pos, First, Last int
	Off, Len         int
}

// MaxReadChunks is how many read chunks a call may have.
const MaxReadChunks = 64

// roundedUpBy reports whether s is the roundup of chunk k as a chunk of its own,
// which RFC 5666 section 3.7 lets senders make of it.
func (k *Pulled) roundedUpBy(s wire.ReadSegment) bool {
	pad := xdr.Pad(k.Len)
	return pad > 0 && int(s.Position) == k.Pos+k.Len && int(s.Length) == pad
}

// Pull checks a call's read list (RFC 8166 section 3.4.5) and lays its
// chunks out in memory. inline is the number of bytes that follow the header;
// limit bounds the bytes pulled. It appends to dst and returns how much memory
// the chunks need. A call that it refuses is owed ERR_CHUNK.
func Pull(dst []Pulled, h *wire.Msg, inline, limit int) ([]Pulled, int, error) {
	list := h.Lists.Read
	for i, s := range list {
		if s.Offset > math.MaxUint64-uint64(s.Length) {
			return dst, 0, BadChunk("read segment of %d bytes wraps around at %#x", s.Length, s.Offset)
		}
		switch {
		case i > 0 && s.Position == list[i-1].Position:
		case i > 0 && dst[len(dst)-1].roundedUpBy(s):
		case s.Position%4 != 0:
			return dst, 0, BadChunk("read chunk at misaligned position %d", s.Position)
		default:
			dst = append(dst, Pulled{Pos: int(s.Position), First: i})
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
			return dst, 0, BadChunk("RDMA_NOMSG without a Position-Zero chunk")
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
			return dst, 0, BadChunk("Position-Zero chunk in a call that is not RDMA_NOMSG or not first")
		case k.Pos < next || k.Pos > end:
			return dst, 0, BadChunk("read chunk at position %d, want %d to %d", k.Pos, next, end)
		default:
			next = k.Pos + k.Len + xdr.Pad(k.Len)
			end += k.Len + xdr.Pad(k.Len)
		}
		k.Off = longbuf.RoundUp(total, Align)
		total = k.Off + k.Len
		if total > limit {
			return dst, 0, BadChunk("call of more than %d bytes", limit)
		}
	}
	return dst, total, nil
}
