package layout

import (
	"bytes"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// laidOut is a Reader of a stream with a layout.
func laidOut(stream []byte, recv []mem.Vec, v Received) *xdr.Reader {
	r := new(xdr.Reader)
	r.Reset(stream, recv)
	v.LayOut(r)
	return r
}

// TestPlacedPayload: what was placed has the item's length, with or without roundup.
func TestPlacedPayload(t *testing.T) {
	v := memtest.Vec(t, "....", "....")
	reduced := []byte("\x00\x00\x00\x05\x00\x00\x00\x09")
	for placed, ok := range map[int]bool{5: true, 8: true, 4: false, 6: false, 0: false} {
		r := laidOut(reduced, []mem.Vec{v}, Received{Placed: []int{placed}})
		n, after := r.Payload(0), r.Uint32()
		if good := n == 5 && after == 9 && r.End() == nil; good != ok {
			t.Errorf("%d bytes placed of 5: accepted %v, %v", placed, good, r.Err())
		}
	}
}

// TestReadChunksInStream: items that came by read chunk are found by position and
// length, with or without roundup.
func TestReadChunksInStream(t *testing.T) {
	// Unreduced: word, "hello" at position 8, word, "abc" at position 24.
	stream := []byte("\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x02\x00\x00\x00\x03")
	for _, chunks := range [][]Chunk{
		{{8, []byte("hello")}, {24, []byte("abc")}},
		{{8, []byte("hello\x00\x00\x00")}, {24, []byte("abc\x00")}},
	} {
		r := laidOut(stream, nil, Received{Chunks: chunks})
		a, b := r.Uint32(), r.Data(10)
		c, d := r.Uint32(), r.Data(10)
		if err := r.End(); err != nil || a != 1 || c != 2 || string(b) != "hello" || string(d) != "abc" {
			t.Errorf("%d %q %d %q %v", a, b, c, d, err)
		}
	}
	for name, chunks := range map[string][]Chunk{
		"wrong length": {{8, []byte("hell")}}, "wrong position": {{12, []byte("hello")}},
		"left over": {{8, []byte("hello")}, {24, []byte("abc")}, {28, nil}},
	} {
		r := laidOut(stream, nil, Received{Chunks: chunks})
		r.Uint32()
		r.Data(10)
		r.Uint32()
		r.Data(10)
		if r.End() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestPlacedAndReadChunks has one item placed, one in a chunk and one Inline.
func TestPlacedAndReadChunks(t *testing.T) {
	stream := []byte("\x00\x00\x00\x05\x00\x00\x00\x04\x00\x00\x00\x03abc\x00")
	a, b, c := memtest.Vec(t, "....."), memtest.Vec(t, "...."), memtest.Vec(t, "...")
	r := laidOut(stream, []mem.Vec{a, b, c}, Received{Placed: []int{5, Inline, Inline}, Chunks: []Chunk{{16, []byte("data")}}})
	if n, m, k := r.Payload(0), r.Payload(1), r.Payload(2); n != 5 || m != 4 || k != 3 || r.End() != nil {
		t.Errorf("%d, %d, %d, %v", n, m, k, r.Err())
	}
	if string(b[0].Bytes()) != "data" || string(c[0].Bytes()) != "abc" {
		t.Errorf("%q, %q", b[0].Bytes(), c[0].Bytes())
	}
	r = laidOut([]byte("\x00\x00\x00\x00"), []mem.Vec{a, b}, Received{Placed: []int{Inline, 4}})
	if r.Payload(0) != 0 || r.End() == nil {
		t.Error("bytes placed for an item that is not there were accepted")
	}
}

// TestAlignedData writes and reads opaque data of sizes around a threshold.
func TestAlignedData(t *testing.T) {
	for _, p := range []rfc5666.Alignment{{}, {Base: 28, Align: 1}, {Base: 28, Align: 8}, {Base: 28, Align: 64, Threshold: 10},
		{Base: 3, Align: 7, Threshold: 11}, {Align: 4096, Threshold: 10}} {
		var w xdr.Writer
		v := memtest.Vec(t, "0123", "456789")
		w.Reset(nil, []mem.Vec{v})
		w.SetBefore(p.Before)
		w.Opaque([]byte("nine char"))
		w.String("eleven char")
		w.Fixed([]byte("never padded"))
		w.Payload(0)
		w.Opaque(nil)
		w.Uint32(5)
		at := w.Marks()[0].Off
		b := append(append(bytes.Clone(w.Bytes()[:at]), "0123456789\x00\x00"...), w.Bytes()[at:]...)
		if len(b) != w.Len() {
			t.Fatalf("%+v: length %d, said to be %d", p, len(b), w.Len())
		}
		if i := bytes.Index(b, []byte("eleven")); p.Align > 0 && (i+p.Base)%p.Align != 0 {
			t.Errorf("%+v: string at %d", p, i)
		}
		if p.Align > 0 && p.Threshold <= 10 && (at+p.Base)%p.Align != 0 {
			t.Errorf("%+v: payload at %d", p, at)
		}
		if end := at + 12 + 4 + 4; len(b) != end {
			t.Errorf("%+v: %d bytes in front of no data", p, len(b)-end)
		}
		clear(v[0].Bytes())
		for n := range len(b) + 1 {
			r := laidOut(b[:n], []mem.Vec{v}, Received{Padding: &p})
			x, y, z := string(r.Opaque(20)), r.String(20), string(r.Fixed(12))
			k, o, five := r.Payload(0), r.Opaque(20), r.Uint32()
			whole := x == "nine char" && y == "eleven char" && z == "never padded" && k == 10 && len(o) == 0 && five == 5 && r.End() == nil
			if whole != (n == len(b)) {
				t.Errorf("%+v: %d of %d bytes: %v", p, n, len(b), r.Err())
			}
		}
		if string(v[0].Bytes()) != "0123" {
			t.Errorf("%+v: payload %q", p, v[0].Bytes())
		}
	}
}

func FuzzReceived(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05hello\x00\x00\x00"), 8, 16, 4)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1<<30, 4096, 1)
	f.Fuzz(func(t *testing.T, b []byte, limit, align, threshold int) {
		if limit < 0 {
			return
		}
		a := &rfc5666.Alignment{Align: align, Threshold: threshold}
		r := laidOut(b, nil, Received{Chunks: []Chunk{{4, []byte("abcd")}}, Padding: a})
		for range 4 {
			if d := r.Data(limit); len(d) > limit {
				t.Fatal("bound exceeded")
			}
			r.Opaque(limit)
		}
		_ = r.End()
	})
}
