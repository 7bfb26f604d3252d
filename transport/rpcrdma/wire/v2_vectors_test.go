package wire

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
func headers2() map[string]Message {
	a := Segment{Handle: 0x10, Length: 4096, Offset: 0x1000200030004000}
	b := Segment{Handle: 0x11, Length: 3, Offset: 0x5000}
	c := Segment{Handle: 0x12, Length: 1048576, Offset: 0xffffffff00000000}
	msg := func(dir Direction, inv uint32, l Lists) Message {
		return &Msg{Header: Header{0xdecafbad, 2, 32, ProcMsg}, Direction: dir, InvHandle: inv, Lists: l}
	}
	long := func(dir Direction, inv uint32, l Lists) Message {
		return &Msg{Header: Header{7, 2, 1, ProcNoMsg}, Direction: dir, InvHandle: inv, Lists: l}
	}
	fault := func(code ErrCode, f Fault) Message {
		return &Error{Header: Header{0x01020304, 2, 128, ProcError}, Code: code, Fault: f}
	}
	head := func(xid uint32, p Proc) Header { return Header{xid, 2, 64, p} }
	size, general := prop(PropReceiveSize, 65536), prop(PropBackward, uint32(BackwardGeneral))
	reads := []ReadSegment{{148, a}, {148, b}}
	writes := []Chunk{{a, b}, {}}
	return map[string]Message{
		"msg-inline-call":           msg(DirCall, 0, Lists{}),
		"msg-inline-reply":          msg(DirReply, 0, Lists{}),
		"msg-read-chunk":            msg(DirCall, 0x11, Lists{Read: reads}),
		"msg-read-and-write-chunks": msg(DirCall, 0, Lists{Read: reads, Write: writes}),
		"msg-reply-chunk":           msg(DirCall, 0x12, Lists{Reply: Chunk{c}}),
		"msg-empty-reply-chunk":     msg(DirCall, 0, Lists{Reply: Chunk{}}),
		"nomsg-call":                long(DirCall, 0x10, Lists{Read: []ReadSegment{{0, a}}, Write: writes, Reply: Chunk{c}}),
		"nomsg-reply":               long(DirReply, 0, Lists{Reply: Chunk{c}}),
		"err-vers":                  &Error{Header: Header{0x01020304, 2, 128, ProcError}, Code: ErrVers, Low: 1, High: 2},
		"err-bad-xdr":               fault(ErrBadXDR, Fault{}),
		"err-inval-proc":            fault(ErrInvalProc, Fault{}),
		"err-read-chunks":           fault(ErrReadChunks, Fault{}),
		"err-write-chunks":          fault(ErrWriteChunks, Fault{Max: 3}),
		"err-segments":              fault(ErrSegments, Fault{Max: 16}),
		"err-write-resource":        fault(ErrWriteResource, Fault{Index: 2, Needed: 70000}),
		"err-reply-resource":        fault(ErrReplyResource, Fault{Needed: 80000}),
		"err-inval-option":          fault(ErrInvalOption, Fault{}),
		"err-system":                fault(ErrSystem, Fault{}),
		"optional-empty":            &Optional{Header: Header{9, 2, 2, ProcOptional}, Type: 0x7777},
		"optional-info":             &Optional{Header: Header{9, 2, 2, ProcOptional}, Direction: DirReply, Type: 0x7777, Info: []byte("fives")},
		"connprop-empty":            &ConnProp{Header: head(11, ProcConnProp)},
		"connprop":                  &ConnProp{Header: head(11, ProcConnProp), Props: propSet(size, general), NoChange: subset(1, 31)},
		"connprop-unknown-and-default": &ConnProp{Header: head(11, ProcConnProp), Props: propSet(size, general,
			func(s *PropSet) { s.Add(0xffffff00, []byte("maybe")) },
			func(s *PropSet) { s.Add(PropBackward, nil) })},
		"reqprop": &ReqProp{Header: head(12, ProcReqProp), Props: propSet(size)},
		"resprop": &ResProp{Header: head(12, ProcResProp), Done: subset(1, 31, 39), Rejected: subset(7), Props: propSet(size)},
		"updprop": &UpdProp{Header: head(13, ProcUpdProp), Props: propSet(size, general)},
	}
}

// plain makes of m what it is without memory that a parser keeps for its next header, and with lists of no entries nil.
func plain(m Message) Message {
	set := func(s *PropSet) {
		if len(s.raw) == 0 {
			s.raw = nil
		}
	}
	switch m := m.(type) {
	case *Msg:
		m.Lists.store = nil
		if len(m.Lists.Read) == 0 {
			m.Lists.Read = nil
		}
		if len(m.Lists.Write) == 0 {
			m.Lists.Write = nil
		}
	case *Optional:
		if len(m.Info) == 0 {
			m.Info = nil
		}
	case *ConnProp:
		set(&m.Props)
	case *ReqProp:
		set(&m.Props)
	case *ResProp:
		set(&m.Props)
	case *UpdProp:
		set(&m.Props)
	}
	return m
}

// propsOf is the set of properties in m.
func propsOf(m Message) *PropSet {
	switch m := m.(type) {
	case *ConnProp:
		return &m.Props
	case *ReqProp:
		return &m.Props
	case *ResProp:
		return &m.Props
	case *UpdProp:
		return &m.Props
	}
	return &PropSet{}
}

// TestHeaders2 encodes and decodes every vector.
func TestHeaders2(t *testing.T) {
	vs, hs := vectors2(t), headers2()
	if len(vs) != len(hs) {
		t.Errorf("%d vectors for %d headers", len(vs), len(hs))
	}
	for name, m := range hs {
		want := vs[name]
		if b := encoded(m); !bytes.Equal(b, want) {
			t.Errorf("%s: encoded\n%x, want\n%x", name, b, want)
			continue
		}
		in := want
		switch m.(type) {
		case *Msg, *Optional:
			in = append(bytes.Clone(want), "payload"...)
		}
		got, n, err := Parse(in, AllVersions)
		if err != nil || n != len(want) {
			t.Errorf("%s: length %d of %d, error %v", name, n, len(want), err)
			continue
		}
		if !reflect.DeepEqual(plain(got), plain(m)) {
			t.Errorf("%s: decoded\n%+v, want\n%+v", name, plain(got), plain(m))
		}
	}
}

// TestHeaders2Truncated cuts every vector short everywhere. The sender of a
// request is owed an answer as soon as it can be known to be one.
func TestHeaders2Truncated(t *testing.T) {
	for name, b := range vectors2(t) {
		for n := range b {
			_, _, err := Parse(b[:n:n], AllVersions)
			var he *ParseError
			if !errors.As(err, &he) {
				t.Fatalf("%s: first %d bytes: error %v", name, n, err)
			}
			fixed := n >= FixedLen
			if he.Fixed != fixed || fixed && he.Header.Version != 2 {
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
	many := make([]uint32, 0, 2*MaxProperties+8)
	many = append(many, 1, 2, 3, uint32(ProcUpdProp), MaxProperties+1)
	for range MaxProperties + 1 {
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
		"subset longer than properties can need": {[]uint32{1, 2, 3, 6, 0, MaxProperties/32 + 1}, ErrBadXDR},
		"response with a value that is wrong":    {[]uint32{1, 2, 3, 8, 0, 0, 1, 2, 4, 3}, 0},
	} {
		_, _, err := Parse(xdrWords(c.words...), AllVersions)
		var he *ParseError
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
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := Parse(b, AllVersions)
		if err != nil {
			if !errors.As(err, new(*ParseError)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if m.Fixed().Version != Version2 {
			return
		}
		if got := encoded(m); !bytes.Equal(got, b[:n]) && !paddedDirty(m) {
			t.Fatalf("decoded\n%x, encoded\n%x", b[:n], got)
		}
		set := propsOf(m)
		for i, p := range set.All() {
			if i >= set.Len() || p.check() != "" {
				t.Fatalf("property %d of %d: %s", i, set.Len(), p.check())
			}
		}
	})
}

// paddedDirty reports whether padding, which is not looked at, may hold anything.
func paddedDirty(m Message) bool {
	o, ok := m.(*Optional)
	return ok && len(o.Info)%4 != 0
}
