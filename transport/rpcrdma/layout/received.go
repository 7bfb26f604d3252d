package layout

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Inline, in Received.Placed, marks a payload that the peer sent in the stream.
const Inline = -1

// Chunk is a data item that came by read chunk: its bytes, which may include its
// roundup, and its position in the unreduced stream (RFC 8166 section 3.4.4).
type Chunk struct {
	Pos  int
	Data []byte
}

// Received implements xdr.Layout for a message whose data the peer placed, sent by
// read chunks, or padded.
type Received struct {
	// Placed is, for each payload, the number of bytes that the peer placed in it by
	// RDMA Write, with or without roundup, or inline. End checks the first 64.
	Placed []int
	// Chunks are in ascending order of position.
	Chunks []Chunk
	// Padding is nil unless the message is an RDMA_MSGP.
	Padding *rfc5666.Alignment

	taken   uint64 // bit i: the payload Placed[i] was read
	skipped int    // bytes of items, with roundup, that the stream left out
}

// LayOut gives r this layout, unless all data of the message is in its stream.
func (v *Received) LayOut(r *xdr.Reader) {
	if len(v.Placed) > 0 || len(v.Chunks) > 0 || v.Padding != nil {
		r.SetLayout(v)
	}
}

// Item implements xdr.Layout.
func (v *Received) Item(i, off, n int) (data []byte, moved bool, err error) {
	if i >= 0 && i < len(v.Placed) && v.Placed[i] != Inline {
		if p := v.Placed[i]; p != n && p != n+xdr.Pad(n) {
			return nil, false, fmt.Errorf("item of %d bytes, but %d were placed by RDMA", n, p)
		}
		v.taken |= 1 << i
		v.skipped += n + xdr.Pad(n)
		return nil, true, nil
	}
	if len(v.Chunks) == 0 || v.Chunks[0].Pos != off+v.skipped {
		return nil, false, nil
	}
	d := v.Chunks[0].Data
	if len(d) != n && len(d) != n+xdr.Pad(n) {
		return nil, false, fmt.Errorf("item of %d bytes, but its chunk has %d", n, len(d))
	}
	v.Chunks = v.Chunks[1:]
	v.skipped += n + xdr.Pad(n)
	return d[:n:n], true, nil
}

// Before implements xdr.Layout.
func (v *Received) Before(off, n int) int {
	if v.Padding == nil {
		return 0
	}
	p := v.Padding.Before(off, n)
	v.skipped -= p // it belongs to no item
	return p
}

// End implements xdr.Layout.
func (v *Received) End() error {
	for i, n := range v.Placed[:min(len(v.Placed), 64)] {
		if n != Inline && v.taken>>i&1 == 0 {
			return fmt.Errorf("%d bytes were placed by RDMA that belong to no item", n)
		}
	}
	if len(v.Chunks) > 0 {
		return fmt.Errorf("chunk at position %d belongs to no item", v.Chunks[0].Pos)
	}
	return nil
}
