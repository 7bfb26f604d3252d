package rpcrdma

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestRPCGenVectors2 makes sure that the vectors kept are those of the draft's
// own XDR.
func TestRPCGenVectors2(t *testing.T) {
	want, err := os.ReadFile("testdata/v2_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := runXDR(t, "rpcrdma_v2"); got != string(want) {
		t.Errorf("testdata/v2_vectors.txt differs from what rpcgen's code encodes:\n%s", got)
	}
}

func vectors2(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/v2_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	vs := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if vs[name], err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
	}
	return vs
}

func propSet(add ...func(*PropSet)) (s PropSet) {
	for _, f := range add {
		f(&s)
	}
	return s
}

func prop(id PropID, v uint32) func(*PropSet) { return func(s *PropSet) { s.AddUint32(id, v) } }

func subset(places ...int) (s PropSubset) {
	for _, n := range places {
		s.Set(n)
	}
	return s
}

// headers2 are the headers that testdata/rpcrdma_v2.c encodes.
func headers2() map[string]Header {
	a := Segment{Handle: 0x10, Length: 4096, Offset: 0x1000200030004000}
	b := Segment{Handle: 0x11, Length: 3, Offset: 0x5000}
	c := Segment{Handle: 0x12, Length: 1048576, Offset: 0xffffffff00000000}
	msg := func(v V2, l Lists) Header {
		return Header{XID: 0xdecafbad, Version: 2, Credits: 32, Proc: Msg, Lists: l, V2: v}
	}
	long := func(v V2, l Lists) Header {
		return Header{XID: 7, Version: 2, Credits: 1, Proc: NoMsg, Lists: l, V2: v}
	}
	fault := func(code ErrCode, f Fault) Header {
		return Header{XID: 0x01020304, Version: 2, Credits: 128, Proc: Error, Err: code, V2: V2{Direction: DirReply, Fault: f}}
	}
	props := func(xid uint32, p Proc, v V2) Header {
		return Header{XID: xid, Version: 2, Credits: 64, Proc: p, V2: v}
	}
	size, general := prop(PropReceiveSize, 65536), prop(PropBackward, uint32(BackwardGeneral))
	vers := fault(ErrVers, Fault{})
	vers.Low, vers.High = 1, 2
	reads := []ReadSegment{{148, a}, {148, b}}
	writes := []Chunk{{a, b}, {}}
	return map[string]Header{
		"msg-inline-call":           msg(V2{}, Lists{}),
		"msg-inline-reply":          msg(V2{Direction: DirReply}, Lists{}),
		"msg-read-chunk":            msg(V2{InvHandle: 0x11}, Lists{Read: reads}),
		"msg-read-and-write-chunks": msg(V2{}, Lists{Read: reads, Write: writes}),
		"msg-reply-chunk":           msg(V2{InvHandle: 0x12}, Lists{Reply: Chunk{c}}),
		"msg-empty-reply-chunk":     msg(V2{}, Lists{Reply: Chunk{}}),
		"nomsg-call": long(V2{InvHandle: 0x10}, Lists{
			Read: []ReadSegment{{0, a}}, Write: writes, Reply: Chunk{c}}),
		"nomsg-reply":        long(V2{Direction: DirReply}, Lists{Reply: Chunk{c}}),
		"err-vers":           vers,
		"err-bad-xdr":        fault(ErrBadXDR, Fault{}),
		"err-inval-proc":     fault(ErrInvalProc, Fault{}),
		"err-read-chunks":    fault(ErrReadChunks, Fault{}),
		"err-write-chunks":   fault(ErrWriteChunks, Fault{Max: 3}),
		"err-segments":       fault(ErrSegments, Fault{Max: 16}),
		"err-write-resource": fault(ErrWriteResource, Fault{Index: 2, Needed: 70000}),
		"err-reply-resource": fault(ErrReplyResource, Fault{Needed: 80000}),
		"err-inval-option":   fault(ErrInvalOption, Fault{}),
		"err-system":         fault(ErrSystem, Fault{}),
		"optional-empty":     {XID: 9, Version: 2, Credits: 2, Proc: Optional, V2: V2{OptType: 0x7777}},
		"optional-info": {XID: 9, Version: 2, Credits: 2, Proc: Optional,
			V2: V2{Direction: DirReply, OptType: 0x7777, OptInfo: []byte("fives")}},
		"connprop-empty": props(11, ConnProp, V2{}),
		"connprop":       props(11, ConnProp, V2{Props: propSet(size, general), NoChange: subset(1, 31)}),
		"connprop-unknown-and-default": props(11, ConnProp, V2{Props: propSet(size, general,
			func(s *PropSet) { s.Add(0xffffff00, []byte("maybe")) },
			func(s *PropSet) { s.Add(PropBackward, nil) })}),
		"reqprop": props(12, ReqProp, V2{Props: propSet(size)}),
		"resprop": props(12, ResProp, V2{Direction: DirReply,
			Done: subset(1, 31, 39), Rejected: subset(7), Props: propSet(size)}),
		"updprop": props(13, UpdProp, V2{Props: propSet(size, general)}),
	}
}

// plain is h without memory that a parser keeps for its next header, and with
// lists of no entries made nil.
func plain(h Header) Header {
	h.Lists.store = nil
	if len(h.Lists.Read) == 0 {
		h.Lists.Read = nil
	}
	if len(h.Lists.Write) == 0 {
		h.Lists.Write = nil
	}
	if len(h.OptInfo) == 0 {
		h.OptInfo = nil
	}
	if len(h.Props.raw) == 0 {
		h.Props.raw = nil
	}
	return h
}

// TestHeaders2 encodes and decodes every vector.
func TestHeaders2(t *testing.T) {
	vs, hs := vectors2(t), headers2()
	if len(vs) != len(hs) {
		t.Errorf("%d vectors for %d headers", len(vs), len(hs))
	}
	var got Header
	for name, h := range hs {
		want := vs[name]
		if b := encodeHeader(&h); !bytes.Equal(b, want) {
			t.Errorf("%s: encoded\n%x, want\n%x", name, b, want)
			continue
		}
		in := want
		if h.Proc == Msg || h.Proc == NoMsg || h.Proc == Optional {
			in = append(bytes.Clone(want), "payload"...)
		}
		n, err := ParseHeader(in, &got)
		if err != nil || n != len(want) {
			t.Errorf("%s: length %d of %d, error %v", name, n, len(want), err)
			continue
		}
		if !reflect.DeepEqual(plain(got), plain(h)) {
			t.Errorf("%s: decoded\n%+v, want\n%+v", name, plain(got), plain(h))
		}
	}
}

// TestHeaders2Truncated cuts every vector short everywhere. Whoever sent a
// request is owed an answer as soon as it can be known to be one.
func TestHeaders2Truncated(t *testing.T) {
	var h Header
	for name, b := range vectors2(t) {
		for n := range b {
			_, err := ParseHeader(b[:n:n], &h)
			var he *HeaderError
			if !errors.As(err, &he) {
				t.Fatalf("%s: first %d bytes: error %v", name, n, err)
			}
			fixed := n >= FixedHeaderLen
			if he.Fixed != fixed || fixed && he.Version != 2 {
				t.Errorf("%s: first %d bytes: %+v", name, n, he)
			}
			want := ErrBadXDR
			switch {
			case !fixed, strings.HasPrefix(name, "err-"), name == "resprop":
				want = 0
			case strings.HasSuffix(name, "reply") || name == "optional-info":
				if n >= 20 {
					want = 0
				}
			}
			if he.Answer != want {
				t.Errorf("%s: first %d bytes: answer %d, want %d", name, n, he.Answer, want)
			}
		}
	}
}

func TestHeaders2Refused(t *testing.T) {
	many := make([]uint32, 0, 2*maxProperties+8)
	many = append(many, 1, 2, 3, uint32(UpdProp), maxProperties+1)
	for range maxProperties + 1 {
		many = append(many, 77, 0)
	}
	for name, c := range map[string]struct {
		words  []uint32
		answer ErrCode
	}{
		"MSGP is no procedure of version 2":      {[]uint32{1, 2, 3, 2, 0, 0, 0, 0, 0}, ErrInvalProc},
		"DONE is no procedure of version 2":      {[]uint32{1, 2, 3, 3}, ErrInvalProc},
		"unknown procedure":                      {[]uint32{1, 2, 3, 10}, ErrInvalProc},
		"unknown version":                        {[]uint32{1, 3, 3, 0}, ErrVers},
		"direction 2":                            {[]uint32{1, 2, 3, 0, 2, 0, 0, 0, 0}, ErrBadXDR},
		"NOMSG without a chunk":                  {[]uint32{1, 2, 3, 1, 0, 0, 0, 0, 0}, ErrBadXDR},
		"bool 2":                                 {[]uint32{1, 2, 3, 0, 0, 0, 2, 0, 0}, ErrBadXDR},
		"chunk of more segments than bytes":      {[]uint32{1, 2, 3, 0, 0, 0, 0, 0, 1, 9, 9}, ErrBadXDR},
		"unknown error":                          {[]uint32{1, 2, 3, 4, 11}, 0},
		"payload after an error":                 {[]uint32{1, 2, 3, 4, 10, 0}, 0},
		"payload after properties":               {[]uint32{1, 2, 3, 9, 0, 0}, ErrBadXDR},
		"option longer than the message":         {[]uint32{1, 2, 3, 5, 0, 1, 5, 0}, ErrBadXDR},
		"property longer than the message":       {[]uint32{1, 2, 3, 9, 1, 77, 5, 0}, ErrBadXDR},
		"receive size of two words":              {[]uint32{1, 2, 3, 9, 1, 1, 8, 0, 4096}, ErrBadXDR},
		"receive size of three bytes":            {[]uint32{1, 2, 3, 7, 1, 1, 3, 0}, ErrBadXDR},
		"backward support 3":                     {[]uint32{1, 2, 3, 6, 1, 2, 4, 3, 0}, ErrBadXDR},
		"properties above the bound":             {many, ErrBadXDR},
		"subset longer than properties can need": {[]uint32{1, 2, 3, 6, 0, maxProperties/32 + 1}, ErrBadXDR},
		"response with a value that is wrong":    {[]uint32{1, 2, 3, 8, 0, 0, 1, 2, 4, 3}, 0},
	} {
		var h Header
		_, err := ParseHeader(xdrWords(c.words...), &h)
		var he *HeaderError
		if !errors.As(err, &he) || !he.Fixed || he.Answer != c.answer {
			t.Errorf("%s: error %+v, want answer %d", name, err, c.answer)
		}
	}
}

// FuzzHeader2 makes sure that what is decoded encodes to the same bytes, and
// that decoding keeps to its bounds.
func FuzzHeader2(f *testing.F) {
	for _, b := range vectors2(f) {
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	var h Header
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseHeader(b, &h)
		if err != nil {
			if !errors.As(err, new(*HeaderError)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if h.Version != Version2 {
			return
		}
		if got := encodeHeader(&h); !bytes.Equal(got, b[:n]) && !paddedDirty(&h) {
			t.Fatalf("decoded\n%x, encoded\n%x", b[:n], got)
		}
		for i, p := range h.Props.All() {
			if i >= h.Props.Len() || p.check() != "" {
				t.Fatalf("property %d of %d: %s", i, h.Props.Len(), p.check())
			}
		}
	})
}

// paddedDirty tells whether padding, which is not looked at, may hold anything.
func paddedDirty(h *Header) bool { return len(h.OptInfo)%4 != 0 }
