package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// captured is one Send of testdata/headers.txt.
type captured struct {
	capture string
	client  bool
	body    int
	header  []byte
	start   []byte // the first words of the body
}

func capturedHeaders(t testing.TB) []captured {
	t.Helper()
	text, err := os.ReadFile("testdata/headers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cs []captured
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("line %q", line)
		}
		n, err1 := strconv.Atoi(f[2])
		h, err2 := hex.DecodeString(f[3])
		start, err3 := hex.DecodeString(strings.TrimPrefix(f[4], "-"))
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		cs = append(cs, captured{capture: f[0], client: f[1] == "c", body: n, header: h, start: start})
	}
	return cs
}

func encoded(m Message) []byte {
	var w xdr.Writer
	m.Append(&w)
	return w.Bytes()
}

// TestCapturedHeaders decodes what the Linux client and server sent and encodes
// it to the same bytes.
func TestCapturedHeaders(t *testing.T) {
	kinds := map[string]int{}
	for _, c := range capturedHeaders(t) {
		m, n, err := Parse(append(bytes.Clone(c.header), c.start...), AllVersions)
		if err != nil {
			t.Errorf("%s %x: %v", c.capture, c.header, err)
			continue
		}
		if n != len(c.header) {
			t.Errorf("%s %x: length %d", c.capture, c.header, n)
		}
		if got := encoded(m); !bytes.Equal(got, c.header) {
			t.Errorf("%s: encoded\n%x, want\n%x", c.capture, got, c.header)
		}
		h := m.(*Msg)
		if (h.Proc == ProcMsg) != (c.body > 0) {
			t.Errorf("%s: procedure %d with a body of %d", c.capture, h.Proc, c.body)
		}
		if c.body > 0 {
			if xid := binary.BigEndian.Uint32(c.start); xid != h.XID {
				t.Errorf("%s: XID %#x of the message, %#x of the header", c.capture, xid, h.XID)
			}
			if client := binary.BigEndian.Uint32(c.start[4:]) == 0; client != c.client {
				t.Errorf("%s %x: direction", c.capture, c.header)
			}
		}
		switch {
		case h.Proc == ProcNoMsg && c.client:
			kinds["Position-Zero"]++
			for _, s := range h.Lists.Read {
				if s.Position != 0 {
					t.Errorf("%s: position %d in a long call", c.capture, s.Position)
				}
			}
		case h.Proc == ProcNoMsg:
			kinds["long reply"]++
		case len(h.Lists.Read) > 0:
			kinds["read chunk"]++
		case len(h.Lists.Write) > 0:
			kinds["write chunk"]++
		case h.Lists.Reply != nil:
			kinds["reply chunk"]++
		default:
			kinds["inline"]++
		}
	}
	for _, k := range []string{"Position-Zero", "long reply", "read chunk", "write chunk", "reply chunk", "inline"} {
		if kinds[k] == 0 {
			t.Errorf("no captured message is of the kind %q", k)
		}
	}
}

func TestCapturedHeadersTruncated(t *testing.T) {
	for _, c := range capturedHeaders(t) {
		for n := range c.header {
			_, got, err := Parse(c.header[:n:n], AllVersions)
			var he *ParseError
			if !errors.As(err, &he) || !errors.Is(err, transport.ErrProtocol) {
				t.Fatalf("%d bytes of %x: length %d, error %v", n, c.header, got, err)
			}
			if he.Fixed != (n >= FixedLen) {
				t.Errorf("%d bytes of %x: fixed part known: %v", n, c.header, he.Fixed)
			}
			if he.Fixed && (he.Header.XID != binary.BigEndian.Uint32(c.header) || he.Answer != ErrChunk) {
				t.Errorf("%d bytes of %x: %+v", n, c.header, he)
			}
		}
	}
}

func xdrWords(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func TestErrorHeaders(t *testing.T) {
	for _, c := range []struct {
		wire []byte
		want Message
	}{
		{xdrWords(7, 1, 32, 4, 1, 1, 2), &Error{Header: Header{7, 1, 32, ProcError}, Code: ErrVers, Low: 1, High: 2}},
		{xdrWords(7, 1, 32, 4, 2), &Error{Header: Header{7, 1, 32, ProcError}, Code: ErrChunk}},
		{xdrWords(7, 1, 32, 3), &Done{Header{7, 1, 32, ProcDone}}},
		{xdrWords(7, 1, 32, 2, 8, 9, 0, 0, 0), &MsgP{Msg: Msg{Header: Header{7, 1, 32, ProcMsgP}}, Align: 8, Threshold: 9}},
	} {
		m, n, err := Parse(c.wire, AllVersions)
		if err != nil || n != len(c.wire) || !reflect.DeepEqual(m, c.want) {
			t.Errorf("%x: got %+v, %d, %v", c.wire, m, n, err)
		}
		if got := encoded(c.want); !bytes.Equal(got, c.wire) {
			t.Errorf("encoded %x, want %x", got, c.wire)
		}
		for k := FixedLen; k < len(c.wire); k++ {
			if _, _, err := Parse(c.wire[:k:k], AllVersions); err == nil {
				t.Errorf("%d bytes of %x accepted", k, c.wire)
			}
		}
	}
}

func TestHeadersRefused(t *testing.T) {
	many := func(n int, entry ...uint32) []uint32 {
		var ws []uint32
		for range n {
			ws = append(ws, entry...)
		}
		return ws
	}
	msg := func(ws ...uint32) []byte { return xdrWords(append([]uint32{7, 1, 32, 0}, ws...)...) }
	for _, c := range []struct {
		name   string
		wire   []byte
		answer ErrCode
	}{
		{"version 0", xdrWords(7, 0, 32, 0, 0, 0, 0), ErrVers},
		{"version 3", xdrWords(7, 3, 32, 0, 0, 0, 0), ErrVers},
		{"unknown procedure", xdrWords(7, 1, 32, 5, 0, 0, 0), ErrChunk},
		{"unknown error", xdrWords(7, 1, 32, 4, 3), 0},
		{"error 0", xdrWords(7, 1, 32, 4, 0), 0},
		{"error of version 3", xdrWords(7, 3, 32, 4, 1, 1, 2), 0},
		{"error cut short", xdrWords(7, 1, 32, 4), 0},
		{"versions cut short", xdrWords(7, 1, 32, 4, 1, 2), 0},
		{"boolean of a list", msg(2, 0, 0), ErrChunk},
		{"boolean of the reply chunk", msg(0, 0, 0xffffffff), ErrChunk},
		{"long message without chunks", xdrWords(7, 1, 32, 1, 0, 0, 0), ErrChunk},
		{"too many read segments", msg(append(many(MaxReadSegments+1, 1, 4, 1, 1, 0, 0), 0, 0, 0)...), ErrChunk},
		{"endless read list", msg(many(5000, 1)...), ErrChunk},
		{"too many write chunks", msg(append(append([]uint32{0}, many(MaxWriteChunks+1, 1, 0)...), 0, 0)...), ErrChunk},
		{"segment count without segments", msg(0, 1, 0xffffffff, 0, 0), ErrChunk},
		{"segment count of one more than there is", msg(0, 0, 1, 2, 1, 1, 0, 0), ErrChunk},
		{"too many segments", msg(append([]uint32{0, 0, 1, MaxChunkSegments + 1}, many(MaxChunkSegments+1, 1, 1, 0, 0)...)...), ErrChunk},
	} {
		_, _, err := Parse(c.wire, AllVersions)
		var he *ParseError
		if !errors.As(err, &he) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !he.Fixed || he.Header.XID != 7 || he.Answer != c.answer {
			t.Errorf("%s: %+v", c.name, he)
		}
	}
}

func TestListsAtTheirBounds(t *testing.T) {
	h := Msg{Header: Header{1, 1, 1, ProcMsg}, Lists: Lists{Reply: make(Chunk, MaxChunkSegments)}}
	for i := range MaxReadSegments {
		h.Lists.Read = append(h.Lists.Read, ReadSegment{Position: 4 * uint32(i)})
	}
	for i := range MaxWriteChunks {
		h.Lists.Write = append(h.Lists.Write, make(Chunk, i))
	}
	wire := encoded(&h)
	var got Msg
	if n, err := got.Parse(wire); err != nil || n != len(wire) || !bytes.Equal(encoded(&got), wire) {
		t.Errorf("%d of %d bytes, %v", n, len(wire), err)
	}
}

func TestParseReusesLists(t *testing.T) {
	var m Msg
	cs := capturedHeaders(t)
	parse := func() {
		for _, c := range cs {
			if _, err := ParseHeader(c.header, AllVersions); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Parse(c.header); err != nil {
				t.Fatal(err)
			}
		}
	}
	parse()
	if n := testing.AllocsPerRun(10, parse); n != 0 {
		t.Errorf("%v allocations for headers seen before", n)
	}
}

func TestKeysAreDistinct(t *testing.T) {
	s := func(k uint32) Segment { return Segment{Handle: k} }
	l := Lists{
		Read:  []ReadSegment{{Segment: s(5)}, {Segment: s(6)}, {Segment: s(5)}},
		Write: []Chunk{{s(6), s(7)}, {}},
		Reply: Chunk{s(8), s(7)},
	}
	if got := l.Keys([]uint32{5}); !reflect.DeepEqual(got, []uint32{5, 5, 6, 7, 8}) {
		t.Errorf("got %v", got)
	}
}

func FuzzHeader(f *testing.F) {
	for _, c := range capturedHeaders(f) {
		f.Add(append(c.header, c.start...))
	}
	f.Add(xdrWords(7, 1, 32, 4, 1, 1, 2))
	f.Add(xdrWords(7, 1, 32, 2, 8, 9, 0, 0, 0))
	f.Add(xdrWords(7, 1, 32, 0, 0, 1, 0xffffffff, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := Parse(b, AllVersions)
		if err != nil {
			if !errors.Is(err, transport.ErrProtocol) {
				t.Fatalf("error %v", err)
			}
			return
		}
		wire := encoded(m)
		if !bytes.Equal(wire, b[:n]) && !paddedDirty(m) {
			t.Fatalf("%x encodes as %x", b[:n], wire)
		}
		if _, again, err := Parse(wire, AllVersions); err != nil || again != n {
			t.Fatalf("%x: %d, %v", wire, again, err)
		}
	})
}
