package rpcrdma

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// inline, in received.placed, marks a payload that the peer sent in the stream.
const inline = -1

// chunkData is a data item that came by read chunk: its bytes, which may include its
// roundup, and its position in the unreduced stream (RFC 8166 section 3.4.4).
type chunkData struct {
	pos  int
	data []byte
}

// received implements xdr.Layout for a message whose data the peer placed, sent by
// read chunks, or padded.
type received struct {
	// placed is, for each payload, the number of bytes that the peer placed in it by
	// RDMA Write, with or without roundup, or inline. End checks the first 64.
	placed []int
	// chunks are in ascending order of position.
	chunks []chunkData
	// padding is nil unless the message is an RDMA_MSGP.
	padding *rfc5666.Alignment

	taken   uint64 // bit i: the payload placed[i] was read
	skipped int    // bytes of items, with roundup, that the stream left out
}

// layOut gives r this layout, unless all data of the message is in its stream.
func (v *received) layOut(r *xdr.Reader) {
	if len(v.placed) > 0 || len(v.chunks) > 0 || v.padding != nil {
		r.SetLayout(v)
	}
}

// Item implements xdr.Layout.
func (v *received) Item(i, off, n int) (data []byte, moved bool, err error) {
	if i >= 0 && i < len(v.placed) && v.placed[i] != inline {
		if p := v.placed[i]; p != n && p != n+xdr.Pad(n) {
			return nil, false, fmt.Errorf("item of %d bytes, but %d were placed by RDMA", n, p)
		}
		v.taken |= 1 << i
		v.skipped += n + xdr.Pad(n)
		return nil, true, nil
	}
	if len(v.chunks) == 0 || v.chunks[0].pos != off+v.skipped {
		return nil, false, nil
	}
	d := v.chunks[0].data
	if len(d) != n && len(d) != n+xdr.Pad(n) {
		return nil, false, fmt.Errorf("item of %d bytes, but its chunk has %d", n, len(d))
	}
	v.chunks = v.chunks[1:]
	v.skipped += n + xdr.Pad(n)
	return d[:n:n], true, nil
}

// Before implements xdr.Layout.
func (v *received) Before(off, n int) int {
	if v.padding == nil {
		return 0
	}
	p := v.padding.Before(off, n)
	v.skipped -= p // it belongs to no item
	return p
}

// End implements xdr.Layout.
func (v *received) End() error {
	for i, n := range v.placed[:min(len(v.placed), 64)] {
		if n != inline && v.taken>>i&1 == 0 {
			return fmt.Errorf("%d bytes were placed by RDMA that belong to no item", n)
		}
	}
	if len(v.chunks) > 0 {
		return fmt.Errorf("chunk at position %d belongs to no item", v.chunks[0].pos)
	}
	return nil
}
