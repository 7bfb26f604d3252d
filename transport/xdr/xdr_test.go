package xdr

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

func vec(t *testing.T, parts ...string) mem.Vec {
	t.Helper()
	a, err := mem.NewArena(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	var v mem.Vec
	off := 0
	for _, p := range parts {
		s := a.Seg(off, len(p))
		copy(s.Bytes(), p)
		v = append(v, s)
		off += len(p) + 100
	}
	return v
}

// The vectors follow the examples and layouts of RFC 4506 section 4.
func TestWriterGolden(t *testing.T) {
	var w Writer
	w.Uint32(0x01020304)
	w.Uint64(0x0102030405060708)
	w.Bool(true)
	w.Bool(false)
	w.Opaque([]byte("hello"))
	w.Fixed([]byte("ab"))
	w.String("")
	w.String("John")
	want := "01020304" + "0102030405060708" + "00000001" + "00000000" +
		"0000000568656c6c6f000000" + "61620000" + "00000000" + "000000044a6f686e"
	if got := hex.EncodeToString(w.Bytes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPayloadMarks(t *testing.T) {
	var w Writer
	w.Reset(nil, []mem.Vec{vec(t, "abc", "de"), vec(t, "wxyz")})
	w.Uint32(7)
	w.Payload(0)
	w.Uint32(8)
	w.Payload(1)
	want := []Mark{{Off: 8, Pos: 8, Index: 0, Len: 5}, {Off: 16, Pos: 24, Index: 1, Len: 4}}
	got := w.Marks()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("marks %v, want %v", got, want)
	}
	if w.Len() != 28 || len(w.Bytes()) != 16 {
		t.Errorf("length %d unreduced, %d reduced", w.Len(), len(w.Bytes()))
	}
	w.Truncate(8)
	if w.Len() != 16 || len(w.Marks()) != 1 {
		t.Errorf("after truncation: length %d, marks %v", w.Len(), w.Marks())
	}
}

func TestReaderPayloadInlineAndPlaced(t *testing.T) {
	stream := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x09")
	v := vec(t, "....", "....")
	var r Reader
	r.Reset(stream, []mem.Vec{v}, nil)
	got := make([]byte, 5)
	if n := r.Payload(0); n != 5 || v.CopyOut(0, got) != 5 || string(got) != "hello" || r.Uint32() != 9 {
		t.Errorf("inline: %d bytes %q, %v", n, got, r.Err())
	}
	reduced := []byte("\x00\x00\x00\x05\x00\x00\x00\x09")
	for placed, ok := range map[int]bool{5: true, 8: true, 4: false, 6: false, 0: false} {
		r.Reset(reduced, []mem.Vec{v}, []int{placed})
		n, after := r.Payload(0), r.Uint32()
		if good := n == 5 && after == 9 && r.End() == nil; good != ok {
			t.Errorf("%d bytes placed of 5: accepted %v, %v", placed, good, r.Err())
		}
	}
	r.Reset([]byte("\x00\x00\x00\x09123456789\x00\x00\x00"), []mem.Vec{v}, nil)
	if r.Payload(0) != 0 || r.Err() == nil {
		t.Error("more bytes than the buffer holds were accepted")
	}
}

func TestReaderPlacedAt(t *testing.T) {
	v := vec(t, "........")
	for at, ok := range map[int]bool{4: false, 8: true, 12: false} {
		var r Reader
		r.ResetAt([]byte("\x00\x00\x00\x05\x00\x00\x00\x05"), []mem.Vec{v}, []int{5}, at)
		if word, n := r.Uint32(), r.Payload(0); word != 5 || (n == 5 && r.End() == nil) != ok {
			t.Errorf("item at 8, said to be at %d: length %d, %v", at, n, r.Err())
		}
	}
}

func TestReaderChunks(t *testing.T) {
	// Unreduced: word, "hello" at position 8, word, "abc" at position 24.
	stream := []byte("\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x02\x00\x00\x00\x03")
	for _, chunks := range [][]Chunk{
		{{8, []byte("hello")}, {24, []byte("abc")}},
		{{8, []byte("hello\x00\x00\x00")}, {24, []byte("abc\x00")}},
	} {
		var r Reader
		r.ResetChunks(stream, 0, chunks)
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
		var r Reader
		r.ResetChunks(stream, 0, chunks)
		r.Uint32()
		r.Data(10)
		r.Uint32()
		r.Data(10)
		if r.End() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestReaderRejects(t *testing.T) {
	whole := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x01")
	for n := range whole {
		var r Reader
		r.Reset(whole[:n], nil, nil)
		r.Opaque(100)
		r.Bool()
		if r.Err() == nil {
			t.Errorf("truncation to %d bytes accepted", n)
		}
	}
	for name, f := range map[string]func(*Reader){
		"bound":       func(r *Reader) { r.Opaque(4) },
		"huge length": func(r *Reader) { r.Uint32(); r.Opaque(1 << 31) },
		"boolean":     func(r *Reader) { r.Bool() },
		"left over":   func(r *Reader) { r.Uint32(); _ = r.End() },
	} {
		var r Reader
		r.Reset(whole, nil, nil)
		f(&r)
		if r.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
		if r.Uint32() != 0 || r.Uint64() != 0 || r.Bool() || r.Count(10) != 0 || r.String(10) != "" {
			t.Errorf("%s: reads after the error return something", name)
		}
	}
}

// TestPadding writes and reads opaque data of sizes around a threshold.
func TestPadding(t *testing.T) {
	for _, p := range []Padding{{}, {28, 1, 0}, {28, 8, 0}, {28, 64, 10}, {3, 7, 11}, {0, 4096, 10}} {
		var w Writer
		v := vec(t, "0123", "456789")
		w.Reset(nil, []mem.Vec{v})
		w.SetPadding(p)
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
			var r Reader
			r.Reset(b[:n], []mem.Vec{v}, nil)
			r.SetPadding(p)
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

// TestReaderPlacedAndChunks has one item placed, one in a chunk and one inline.
func TestReaderPlacedAndChunks(t *testing.T) {
	stream := []byte("\x00\x00\x00\x05\x00\x00\x00\x04\x00\x00\x00\x03abc\x00")
	a, b, c := vec(t, "....."), vec(t, "...."), vec(t, "...")
	var r Reader
	r.Reset(stream, []mem.Vec{a, b, c}, []int{5, Inline, Inline})
	r.SetChunks([]Chunk{{16, []byte("data")}})
	if n, m, k := r.Payload(0), r.Payload(1), r.Payload(2); n != 5 || m != 4 || k != 3 || r.End() != nil {
		t.Errorf("%d, %d, %d, %v", n, m, k, r.Err())
	}
	if string(b[0].Bytes()) != "data" || string(c[0].Bytes()) != "abc" {
		t.Errorf("%q, %q", b[0].Bytes(), c[0].Bytes())
	}
	r.Reset([]byte("\x00\x00\x00\x00"), []mem.Vec{a, b}, []int{Inline, 4})
	if r.Payload(0) != 0 || r.End() == nil {
		t.Error("bytes placed for an item that is not there were accepted")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05hello\x00\x00\x00"), 8)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1<<30)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		if limit < 0 {
			return
		}
		var r Reader
		r.ResetChunks(b, 0, []Chunk{{4, []byte("abcd")}})
		for range 4 {
			if d := r.Data(limit); len(d) > limit {
				t.Fatal("bound exceeded")
			}
		}
		_ = r.End()
		r.Reset(b, nil, nil)
		o := bytes.Clone(r.Opaque(limit))
		if r.Err() == nil {
			var w Writer
			w.Opaque(o)
			if !bytes.Equal(w.Bytes()[:4+len(o)], b[:4+len(o)]) {
				t.Fatal("does not encode to what was decoded")
			}
		}
	})
}
