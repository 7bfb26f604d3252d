package iwarp

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// stretch is a run of bytes of one direction without a gap.
type stretch struct {
	toServer bool
	b        []byte
}

// readCapture reassembles the TCP streams of a capture: little-endian pcap,
// Ethernet, IPv4. What was sent twice is taken once, and a gap begins a new
// stretch.
func readCapture(t testing.TB, path string, serverPort uint16) []stretch {
	t.Helper()
	d, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type flow struct {
		next uint32
		at   int // in out
	}
	var out []stretch
	flows := map[bool]*flow{}
	for d = d[24:]; len(d) >= 16; {
		n := int(binary.LittleEndian.Uint32(d[8:]))
		ip := d[16+14 : 16+n]
		d = d[16+n:]
		ip = ip[:binary.BigEndian.Uint16(ip[2:])]
		tcp := ip[int(ip[0]&15)*4:]
		seq, flags := binary.BigEndian.Uint32(tcp[4:]), tcp[13]
		toServer := binary.BigEndian.Uint16(tcp[2:]) == serverPort
		data := tcp[int(tcp[12]>>4)*4:]
		f := flows[toServer]
		if flags&2 != 0 {
			seq++
		}
		switch {
		case f == nil || int32(seq-f.next) > 0 && len(data) > 0:
			f = &flow{next: seq, at: len(out)}
			flows[toServer] = f
			out = append(out, stretch{toServer: toServer})
		case len(data) == 0:
			continue
		}
		if old := int(int32(f.next - seq)); old < len(data) {
			out[f.at].b = append(out[f.at].b, data[old:]...)
			f.next = seq + uint32(len(data))
		}
	}
	return out
}

// nextFPDU takes one FPDU without CRC off b.
func nextFPDU(t *testing.T, b []byte) (h header, body, rest []byte) {
	t.Helper()
	h, n, err := parseHeader(b)
	if err != nil || n == 0 {
		t.Fatalf("header % x: %v", b[:min(len(b), untaggedSize)], err)
	}
	end := lengthField + h.length
	if len(b) < end+h.trailer() {
		t.Fatalf("stream ends inside an FPDU of %d bytes", h.length)
	}
	return h, b[n:end], b[end+h.trailer():]
}

// TestCapturedFPDUs decodes what Linux sent and encodes it again, byte for byte.
func TestCapturedFPDUs(t *testing.T) {
	seen := map[bool]map[uint8]int{true: {}, false: {}}
	first := map[bool]bool{true: true, false: true}
	for _, s := range readCapture(t, "testdata/siw-nfsv3.pcap", 20049) {
		b := s.b
		if first[s.toServer] {
			first[s.toServer] = false
			b = checkCapturedMPA(t, b, !s.toServer)
		}
		for len(b) > 0 {
			h, body, rest := nextFPDU(t, b)
			enc := h.append(nil)
			if h.op == opReadRequest {
				r := parseReadRequest(body)
				enc = r.append(enc)
			} else {
				enc = append(enc, body...)
			}
			enc = appendTrailer(enc, h.length, 0, false)
			if want := b[:len(b)-len(rest)]; !bytes.Equal(enc, want) {
				t.Fatalf("%+v encodes to\n% x, want\n% x", h, enc, want)
			}
			seen[s.toServer][h.op]++
			b = rest
		}
	}
	for _, x := range []struct {
		toServer bool
		op       uint8
	}{{true, opSend}, {true, opReadResponse}, {false, opSend}, {false, opWrite}, {false, opReadRequest}, {false, opSendInvalidate}} {
		if seen[x.toServer][x.op] == 0 {
			t.Errorf("no opcode %d in the capture, to server: %v", x.op, x.toServer)
		}
	}
}

func checkCapturedMPA(t *testing.T, b []byte, reply bool) (rest []byte) {
	t.Helper()
	f, n, err := parseMPAHeader(b, reply)
	if err != nil {
		t.Fatal(err)
	}
	f.parseMPAPrivate(b[mpaHeader : mpaHeader+n])
	want := mpaFrame{reply: reply, revision: 2, enhanced: true, ird: 128, private: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}}
	if reply {
		want.ird, want.ord, want.private[5] = 0, 128, 0
	}
	if !bytes.Equal(f.private, want.private) || f.ird != want.ird || f.ord != want.ord || f.revision != 2 || !f.enhanced || f.crc || f.markers || f.reject {
		t.Errorf("MPA frame %+v, want %+v", f, want)
	}
	if enc := appendMPA(nil, &f); !bytes.Equal(enc, b[:mpaHeader+n]) {
		t.Errorf("MPA frame encodes to % x, want % x", enc, b[:mpaHeader+n])
	}
	return b[mpaHeader+n:]
}
