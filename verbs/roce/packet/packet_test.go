package packet

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

// golden is a captured packet and what tshark reads of it.
type golden struct {
	want   Header
	packet []byte
}

func goldens(t testing.TB) []golden {
	t.Helper()
	f, err := os.Open("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []golden
	s := bufio.NewScanner(f)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		fields := strings.Fields(s.Text())
		if len(fields) != 16 {
			t.Fatalf("line of %d fields", len(fields))
		}
		var v [15]uint64
		for i := range v {
			if v[i], err = strconv.ParseUint(fields[i], 0, 64); err != nil {
				t.Fatal(err)
			}
		}
		p, err := hex.DecodeString(fields[15])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, golden{Header{
			Op: Opcode(v[0]), Solicited: v[1] != 0, AckReq: v[2] != 0, PadCount: uint8(v[3]),
			PKey: uint16(v[4]), DestQP: uint32(v[5]), PSN: PSN(v[6]),
			RETH: RETH{v[7], uint32(v[8]), uint32(v[9])},
			AETH: AETH{uint8(v[10]), uint32(v[11])},
			IETH: uint32(v[12]),
			DETH: DETH{uint32(v[13]), uint32(v[14])},
		}, p})
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// encode puts h and payload together again, with the migrated bit as rxe sends it.
func encode(h *Header, payload []byte) []byte {
	b := h.Append(nil)
	b[1] &^= bitMigrated
	b = append(b, payload...)
	return append(b, make([]byte, h.PadCount)...)
}

func TestGolden(t *testing.T) {
	seen := map[Opcode]bool{}
	for _, g := range goldens(t) {
		var h Header
		payload, err := h.Parse(g.packet)
		if err != nil || h != g.want {
			t.Errorf("%v: %+v, %v, want %+v", g.want.Op, h, err, g.want)
			continue
		}
		if (len(payload)+int(h.PadCount))%4 != 0 {
			t.Errorf("%v: %d bytes with %d of pad", h.Op, len(payload), h.PadCount)
		}
		if b := encode(&h, payload); !bytes.Equal(b, g.packet) {
			t.Errorf("%v encodes to\n%x, want\n%x", h.Op, b, g.packet)
		}
		seen[h.Op] = true
	}
	for _, op := range []Opcode{SendFirst, SendMiddle, SendLast, SendOnly, WriteFirst, WriteMiddle, WriteLast, WriteOnly,
		ReadRequest, ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly, Acknowledge, SendOnlyInv, DatagramSend} {
		if !seen[op] {
			t.Errorf("no captured %v", op)
		}
	}
}

// TestFields has what no capture shows, from the layouts of the InfiniBand
// specification.
func TestFields(t *testing.T) {
	const bth = "f0ffff00abcdef80123456"
	for _, x := range []struct {
		packet string
		want   Header
	}{
		{"03" + bth + "01020304" + "ff000000", Header{Op: SendLastImm, Imm: 0x01020304}},
		{"16" + bth + "0a0b0c0d" + "ff000000", Header{Op: SendLastInv, IETH: 0x0a0b0c0d}},
		{"0b" + bth + "0102030405060708" + "a1a2a3a4" + "00000001" + "d1d2d3d4" + "ff000000",
			Header{Op: WriteOnlyImm, RETH: RETH{0x0102030405060708, 0xa1a2a3a4, 1}, Imm: 0xd1d2d3d4}},
		{"11" + bth + "60fedcba" + "ff000000", Header{Op: Acknowledge, AETH: AETH{0x60, 0xfedcba}}},
	} {
		x.want.Solicited, x.want.AckReq, x.want.PadCount = true, true, 3
		x.want.PKey, x.want.DestQP, x.want.PSN = DefaultPKey, 0xabcdef, 0x123456
		b, err := hex.DecodeString(x.packet)
		if err != nil {
			t.Fatal(err)
		}
		var h Header
		payload, err := h.Parse(b)
		if err != nil || h != x.want || !bytes.Equal(payload, []byte{0xff}) {
			t.Errorf("%v: %+v with %x, %v, want %+v", x.want.Op, h, payload, err, x.want)
		}
		if got := append(h.Append(nil), 0xff, 0, 0, 0); !bytes.Equal(got, b) {
			t.Errorf("%v encodes to %x, want %x", h.Op, got, b)
		}
	}
}

// TestTruncated cuts each kind of packet everywhere before its payload, and
// everywhere when all of it is header and pad.
func TestTruncated(t *testing.T) {
	for op := range layouts {
		h := Header{Op: Opcode(op), PadCount: 3}
		if layouts[op] == 0 {
			continue
		}
		whole := append(h.Append(nil), make([]byte, layouts[op].size())...)
		whole = append(whole[:BTHSize+layouts[op].size()], 0, 0, 0)
		for n := range whole {
			if _, err := new(Header).Parse(whole[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("%v cut to %d bytes of %d: %v", h.Op, n, len(whole), err)
			}
		}
		if payload, err := new(Header).Parse(whole); err != nil || len(payload) != 0 {
			t.Errorf("%v: payload of %d bytes, %v", h.Op, len(payload), err)
		}
	}
}

func TestRefused(t *testing.T) {
	h := Header{Op: SendOnly}
	good := h.Append(nil)
	for version := 1; version < 16; version++ {
		b := bytes.Clone(good)
		b[1] |= byte(version)
		if _, err := new(Header).Parse(b); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	long := append(good, make([]byte, 64)...)
	for op, l := range layouts {
		long[0] = byte(op)
		if _, err := new(Header).Parse(long); (err == nil) != (l != 0) || l == 0 && !errors.Is(err, ErrOpcode) {
			t.Errorf("opcode %#x: %v", op, err)
		}
		if l != 0 && strings.HasPrefix(Opcode(op).String(), "opcode") {
			t.Errorf("opcode %#x has no name", op)
		}
	}
}

func TestMaxHeader(t *testing.T) {
	for op := range layouts {
		h := Header{Op: Opcode(op)}
		if n := len(h.Append(nil)); n > MaxHeader {
			t.Errorf("%v: header of %d bytes", h.Op, n)
		}
	}
}

func TestPSN(t *testing.T) {
	const top = psnMask
	for _, x := range []struct {
		a, b PSN
		want int
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, top, 1}, {top, 0, -1},
		{1 << 22, top, 1<<22 + 1}, {1<<23 - 1, 0, 1<<23 - 1}, {1 << 23, 0, -1 << 23}, {0, 1 << 23, -1 << 23},
	} {
		if got := x.a.Sub(x.b); got != x.want {
			t.Errorf("%#x - %#x = %d, want %d", x.a, x.b, got, x.want)
		}
		if got := x.b.Add(x.want); got != x.a {
			t.Errorf("%#x + %d = %#x, want %#x", x.b, x.want, got, x.a)
		}
	}
	for _, x := range [][2]int{{0, 1}, {1, 1}, {1023, 1}, {1024, 1}, {1025, 2}, {1 << 20, 1024}} {
		if got := Count(x[0], 1024); got != x[1] {
			t.Errorf("%d bytes take %d packets, want %d", x[0], got, x[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add(g.packet)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		payload, err := h.Parse(b)
		if err != nil {
			return
		}
		if len(payload) > len(b)-BTHSize-int(h.PadCount) {
			t.Fatalf("payload of %d bytes in a packet of %d", len(payload), len(b))
		}
		if layouts[h.Op]&hasAtomic != 0 {
			return
		}
		var again Header
		p2, err := again.Parse(encode(&h, payload))
		if err != nil || again != h || !bytes.Equal(p2, payload) {
			t.Fatalf("%+v comes back as %+v, %v", h, again, err)
		}
	})
}
