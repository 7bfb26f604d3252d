package wire

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

func chunkOf(lens ...uint32) Chunk {
	c := Chunk{}
	for i, n := range lens {
		c = append(c, Segment{Handle: uint32(i), Length: n, Offset: uint64(i) << 32})
	}
	return c
}

// The header's length is reserved before it is encoded.
func TestReplyHeaderLen(t *testing.T) {
	for _, l := range []Lists{
		{}, {Reply: Chunk{}}, {Reply: chunkOf(1, 2)}, {Write: []Chunk{{}}},
		{Write: []Chunk{chunkOf(1, 2, 3), {}, chunkOf(4)}, Reply: chunkOf(5)},
	} {
		var w xdr.Writer
		m := Msg{Header: Header{Version: Version1}, Lists: l}
		m.Append(&w)
		if got := m.ReturnedLen(); got != len(w.Bytes()) {
			t.Errorf("%+v: got %d, want %d", l, got, len(w.Bytes()))
		}
	}
}

func TestChunkFill(t *testing.T) {
	for _, tc := range []struct {
		n    int
		want string
	}{{0, "[0 0 0]"}, {9, "[9 0 0]"}, {10, "[10 0 0]"}, {11, "[10 1 0]"}, {60, "[10 20 30]"}} {
		c := chunkOf(10, 20, 30)
		c.Fill(tc.n)
		if got := fmt.Sprint([]uint32{c[0].Length, c[1].Length, c[2].Length}); got != tc.want {
			t.Errorf("fill(%d): %s, want %s", tc.n, got, tc.want)
		}
	}
}
