package iwarp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vectors are FPDUs with CRC that Linux accepted.
var vectors = []struct {
	name, hex string
	h         header
	body      string
}{
	{"send", "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c",
		header{length: 23, last: true, op: opSend, msn: 1}, "hello"},
	{"write", "0012 c140 00000100 0000000000001000 61626364 cc0174ff",
		header{length: 18, tagged: true, last: true, op: opWrite, stag: 0x100, to: 0x1000}, "abcd"},
	{"read request", "002e 4141 00000000 00000001 00000001 00000000 00001100 0000000000002000 00001000 00002200 0000000000003000 da6c2eb6",
		header{length: 46, last: true, op: opReadRequest, qn: queueRead, msn: 1},
		string((&readRequest{0x1100, 0x2000, 4096, 0x2200, 0x3000}).append(nil))},
}

func TestFPDUVectors(t *testing.T) {
	for _, v := range vectors {
		want := unhex(t, v.hex)
		b := append(v.h.append(nil), v.body...)
		b = appendTrailer(b, v.h.length, crc32.Checksum(b, castagnoli), true)
		if !bytes.Equal(b, want) {
			t.Errorf("%s encodes to % x, want % x", v.name, b, want)
		}
		h, n, err := parseHeader(want)
		if err != nil || h != v.h || n != v.h.size() || h.payload() != len(v.body) {
			t.Errorf("%s decodes to %+v, size %d, %v", v.name, h, n, err)
		}
		for cut := range n {
			if _, k, err := parseHeader(want[:cut]); k != 0 || err != nil {
				t.Errorf("%s cut to %d bytes: size %d, %v", v.name, cut, k, err)
			}
		}
	}
	if got := appendTrailer(nil, -lengthField, crc32.Checksum(make([]byte, 32), castagnoli), true); !bytes.Equal(got, unhex(t, "aa36918a")) {
		t.Errorf("CRC of 32 zeros is sent as % x", got)
	}
}

func TestHeaderRejections(t *testing.T) {
	for _, x := range []struct {
		name, hex string
		code      termCode
	}{
		{"DDP version of a tagged one", "0012 c040", ddpTaggedVersion},
		{"DDP version of an untagged one", "0017 4243", ddpUntaggedVersion},
		{"RDMAP version", "0017 4103", rdmapVersion},
		{"opcode 8", "0017 4148", rdmapOpcode},
		{"opcode 15", "0017 414f", rdmapOpcode},
		{"untagged write", "0017 4140", rdmapOpcode},
		{"tagged send", "0017 c143", rdmapOpcode},
		{"tagged read request", "0030 c141", rdmapOpcode},
		{"short tagged", "000d c140", mpaFraming},
		{"short untagged", "0011 4143", mpaFraming},
		{"nothing", "0000 4143", mpaFraming},
	} {
		_, _, err := parseHeader(append(unhex(t, x.hex), make([]byte, 60)...))
		var v *violation
		if !errors.As(err, &v) || v.code != x.code {
			t.Errorf("%s: %v, want %v", x.name, err, x.code)
		}
	}
}

func TestMPAFrames(t *testing.T) {
	for _, f := range []mpaFrame{
		{revision: 1, private: []byte("x")},
		{reply: true, revision: 1, reject: true, markers: true, crc: true},
		{revision: 2, enhanced: true, ird: 0x3fff, ord: 1, peerToPeer: true, rtrSend: true, rtrWrite: true, rtrRead: true},
		{reply: true, revision: 2, enhanced: true, ird: 1, ord: 2, rtrRead: true, private: make([]byte, maxPrivate)},
	} {
		b := appendMPA(nil, &f)
		got, err := readMPA(bytes.NewReader(b), f.reply)
		if err != nil {
			t.Errorf("%+v: %v", f, err)
		}
		if again := appendMPA(nil, &got); !bytes.Equal(again, b) {
			t.Errorf("%+v came back as %+v", f, got)
		}
		for cut := range b {
			if _, err := readMPA(bytes.NewReader(b[:cut]), f.reply); err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Errorf("%+v cut to %d bytes: %v", f, cut, err)
			}
		}
		if _, err := readMPA(bytes.NewReader(b), !f.reply); err != errMPAKey {
			t.Errorf("%+v taken for the other kind: %v", f, err)
		}
	}
	for _, s := range []string{
		hex.EncodeToString([]byte(mpaRequestKey)) + "00010201", // 513 bytes
		hex.EncodeToString([]byte(mpaRequestKey)) + "0001ffff",
		hex.EncodeToString([]byte(mpaRequestKey)) + "1002000300000000", // no room for depths
	} {
		if _, err := readMPA(bytes.NewReader(append(unhex(t, s), make([]byte, 1<<16)...)), false); err == nil || err == io.EOF {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestTerminate(t *testing.T) {
	b := appendTerminate(nil, ddpNoBuffer, false)
	h, n, err := parseHeader(b)
	if err != nil || h.op != opTerminate || h.qn != queueTerminate || h.msn != 1 || h.payload() != 4 || len(b) != 28 {
		t.Fatalf("%+v, %v", h, err)
	}
	var te *terminated
	if err := parseTerminate(b[n:]); !errors.As(err, &te) || te.code != ddpNoBuffer {
		t.Errorf("decoded as %v", err)
	}
	for _, x := range []struct {
		hex  string
		want terminated
	}{
		{"1203c000", terminated{ddpMSN, false}},
		{"21030300", terminated{ddpMSN, true}}, // as siw on x86 has it
		{"20020000", terminated{mpaBadCRC, false}},
		{"02020000", terminated{mpaBadCRC, true}},
		{"10100000", terminated{0x1010, false}},
		{"ffff0000", terminated{0xffff, false}},
	} {
		if err := parseTerminate(unhex(t, x.hex)); !errors.As(err, &te) || *te != x.want {
			t.Errorf("%s: %+v, want %+v", x.hex, te, x.want)
		}
	}
	for cut := range 4 {
		if err := parseTerminate(make([]byte, cut)); err != errShortTerminate {
			t.Errorf("%d bytes: %v", cut, err)
		}
	}
}

func FuzzParseMPA(f *testing.F) {
	f.Add(appendMPA(nil, &mpaFrame{revision: 2, enhanced: true, ird: 4, ord: 5, private: []byte("hello")}), false)
	f.Add(appendMPA(nil, &mpaFrame{reply: true, revision: 1, reject: true}), true)
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		m, err := readMPA(bytes.NewReader(b), reply)
		if err != nil {
			return
		}
		again, err := readMPA(bytes.NewReader(appendMPA(nil, &m)), reply)
		if err != nil || !bytes.Equal(again.private, m.private) || again.ird != m.ird || again.ord != m.ord {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(f, v.hex))
	}
	f.Add(appendTerminate(nil, rdmapBounds, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHeader(b)
		if err != nil || n == 0 {
			return
		}
		if n > len(b) || h.payload() < 0 || h.trailer() < crcSize || h.trailer() > maxTrailer {
			t.Fatalf("%+v of %d bytes", h, n)
		}
		// Reserved bits are not kept.
		enc := h.append(nil)
		b = bytes.Clone(b[:n])
		b[2] &^= 0x3c
		b[3] &^= 0x30
		if !bytes.Equal(enc, b) {
			t.Errorf("%+v encodes to % x, want % x", h, enc, b)
		}
		parseTerminate(b)
	})
}
