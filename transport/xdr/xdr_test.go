package xdr

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

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
	w.Reset(nil, []mem.Vec{memtest.Vec(t, "abc", "de"), memtest.Vec(t, "wxyz")})
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

func TestAppendFlat(t *testing.T) {
	var w Writer
	w.Reset(nil, []mem.Vec{memtest.Vec(t, "abc", "de"), memtest.Vec(t, ""), memtest.Vec(t, "wxyz")})
	w.Payload(2)
	w.Uint32(7)
	w.Payload(0)
	w.Payload(1)
	w.Uint32(8)
	for off, want := range map[int]string{
		0: "00000004" + "7778797a" + "00000007" + "00000005" + "6162636465000000" + "00000000" + "00000008",
		8: "00000005" + "6162636465000000" + "00000000" + "00000008",
	} {
		if got := hex.EncodeToString(w.AppendFlat([]byte{0xee}, off)); got != "ee"+want {
			t.Errorf("from %d: %s, want %s", off, got, want)
		}
	}
}

// layout has data at one offset, in place or elsewhere, and fill bytes in front of all other.
type layout struct {
	at    int
	data  []byte
	fill  int
	asked []string
	left  error
}

func (l *layout) Item(i, off, n int) ([]byte, bool, error) {
	l.asked = append(l.asked, fmt.Sprint(i, " ", off, " ", n))
	if n == 13 {
		return nil, false, errors.New("thirteen")
	}
	return l.data, off == l.at, nil
}

func (l *layout) Before(_, n int) int {
	if n == 0 {
		return 0
	}
	return l.fill
}

func (l *layout) End() error { return l.left }

func TestReaderLayout(t *testing.T) {
	stream := []byte("\x00\x00\x00\x05\x00\x00\x00\x03....abc\x00\x00\x00\x00\x02....xy\x00\x00\x00\x00\x00\x00")
	for _, elsewhere := range [][]byte{nil, []byte("moved")} {
		v := memtest.Vec(t, "place")
		l := &layout{at: 4, data: elsewhere, fill: 4}
		var r Reader
		r.Reset(stream, []mem.Vec{v})
		r.SetLayout(l)
		n, b, o, none := r.Payload(0), string(r.Data(10)), string(r.Opaque(10)), string(r.Opaque(10))
		want := "place"
		if elsewhere != nil {
			want = "moved"
		}
		if got := string(v[0].Bytes()); n != 5 || got != want || b != "abc" || o != "xy" || none != "" || r.End() != nil {
			t.Errorf("%d %q, %q, %q, %q, %v", n, got, b, o, none, r.Err())
		}
		if fmt.Sprint(l.asked) != "[0 4 5 -1 8 3]" {
			t.Errorf("asked for %q", l.asked)
		}
		r.Reset(stream[:8], []mem.Vec{v})
		r.SetLayout(&layout{at: 4, left: errors.New("left over")})
		if r.Payload(0); r.Uint32() != 3 || r.End() == nil {
			t.Error("an item that nobody asked for was accepted")
		}
	}
	var r Reader
	r.Reset([]byte("\x00\x00\x00\x0d"), nil)
	r.SetLayout(&layout{at: 4})
	if r.Data(20) != nil || r.Err() == nil {
		t.Error("an item that the layout refuses was accepted")
	}
	for n := range stream {
		r.Reset(stream[:n], []mem.Vec{memtest.Vec(t, ".....")})
		r.SetLayout(&layout{at: 4, fill: 2})
		r.Payload(0)
		r.Opaque(10)
		if n < 14 && r.Err() == nil {
			t.Errorf("truncation to %d bytes accepted", n)
		}
	}
}

func TestWriterBefore(t *testing.T) {
	var w Writer
	w.Reset(nil, []mem.Vec{memtest.Vec(t, "abcd")})
	w.SetBefore(func(off, n int) int { return off + n })
	w.Opaque([]byte("x"))
	w.Payload(0)
	if got := hex.EncodeToString(w.Bytes()); got != "00000001"+"0000000000"+"78000000"+"00000004"+strings.Repeat("00", 21) || w.Marks()[0].Pos != 38 {
		t.Errorf("%s, %v", got, w.Marks())
	}
}

func TestReaderPayload(t *testing.T) {
	stream := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x09")
	v := memtest.Vec(t, "....", "....")
	var r Reader
	r.Reset(stream, []mem.Vec{v})
	got := make([]byte, 5)
	if n := r.Payload(0); n != 5 || v.CopyOut(0, got) != 5 || string(got) != "hello" || r.Uint32() != 9 {
		t.Errorf("inline: %d bytes %q, %v", n, got, r.Err())
	}
	r.Reset([]byte("\x00\x00\x00\x09123456789\x00\x00\x00"), []mem.Vec{v})
	if r.Payload(0) != 0 || r.Err() == nil {
		t.Error("more bytes than the buffer holds were accepted")
	}
}

func TestReaderRejects(t *testing.T) {
	whole := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x01")
	for n := range whole {
		var r Reader
		r.Reset(whole[:n], nil)
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
		r.Reset(whole, nil)
		f(&r)
		if r.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
		if r.Uint32() != 0 || r.Uint64() != 0 || r.Bool() || r.Count(10) != 0 || r.String(10) != "" {
			t.Errorf("%s: reads after the error return something", name)
		}
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
		r.Reset(b, nil)
		r.SetLayout(&layout{at: 4, fill: 3})
		for range 4 {
			if d := r.Data(limit); len(d) > limit {
				t.Fatal("bound exceeded")
			}
		}
		_ = r.End()
		r.Reset(b, nil)
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
