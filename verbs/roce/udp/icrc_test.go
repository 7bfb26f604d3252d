package udp

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ends4 reads the addresses and ports of an IPv4 packet without options.
func ends4(ip []byte) (src, dst netip.AddrPort) {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:])), binary.BigEndian.Uint16(ip[20:])),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:])), binary.BigEndian.Uint16(ip[22:]))
}

func crcOf(p *pseudo, packet []byte) uint32 {
	return crc32.Update(p.begin(len(packet)+CRCSize, packet), crc32.IEEETable, packet[bthSize:])
}

// TestVectors are packets from the IP header to the pad, and their CRC.
func TestVectors(t *testing.T) {
	for _, x := range []struct{ name, packet, crc string }{
		{"SEND Only", "4500003400004000401100000a0000010a000002c00012b7002000000440ffff00000011801234560001020304050607", "065eabef"},
		{"ACK", "4500003000004000401100000a0000010a000002c00012b7001c00001140ffff00000022001234561f000001", "ca79e035"},
		{"SEND Only over IPv6", "6000000000201140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7002000000440ffff00000011801234560001020304050607", "7ad65554"},
	} {
		b := unhex(t, x.packet)
		var p pseudo
		var packet []byte
		if b[0]>>4 == 4 {
			p.fill(ends4(b))
			packet = b[ip4Size+udpSize:]
		} else {
			p.fill(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])), binary.BigEndian.Uint16(b[40:])),
				netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[24:])), binary.BigEndian.Uint16(b[42:])))
			packet = b[ip6Size+udpSize:]
		}
		if got, want := crcOf(&p, packet), binary.LittleEndian.Uint32(unhex(t, x.crc)); got != want {
			t.Errorf("%s: CRC %08x, want %08x", x.name, got, want)
		}
	}
}

// TestSolve finds every identification, at every length, and nothing in a
// packet that was damaged elsewhere.
func TestSolve(t *testing.T) {
	var p pseudo
	p.fill(netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791"))
	r := rand.New(rand.NewPCG(1, 2))
	for n := bthSize + CRCSize; n <= MaxPacket; n += 4 {
		packet := make([]byte, n-CRCSize)
		for i := range packet {
			packet[i] = byte(r.Uint32())
		}
		plain := crcOf(&p, packet)
		id := uint16(r.Uint32())
		q := p
		binary.BigEndian.PutUint16(q.b[lrhSize+idAt:], id)
		sent := crcOf(&q, packet)
		if got, ok := solve(plain^sent, n); !ok || got != id {
			t.Fatalf("%d bytes: identification %#x, %v, want %#x", n, got, ok, id)
		}
		// One bit elsewhere, or the flag against fragments.
		packet[r.IntN(len(packet)/8)*8+5] ^= 1 << r.IntN(8)
		if _, ok := solve(crcOf(&p, packet)^sent, n); ok {
			t.Errorf("%d bytes: a damaged packet has a solution", n)
		}
		q.b[lrhSize+idAt+2] = 0
		if _, ok := solve(plain^crcOf(&q, packet), n); ok {
			t.Errorf("%d bytes: a packet that may be in fragments has a solution", n)
		}
	}
}

func TestMultiply(t *testing.T) {
	for i, v := range inverses {
		// x^(32 i) by feeding zeros to a CRC without inversions.
		up := uint32(one)
		if i > 64 {
			break
		}
		for range 32 * i {
			up = up>>1 ^ poly&-(up&1)
		}
		if got := multiply(up, v); got != one {
			t.Errorf("x^%d times its inverse is %#x", 32*i, got)
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for b.Loop() {
		solve(0x12345678, 1060)
	}
}

// TestLinuxPackets: in packets of the kernel's, the CRC gives the
// identification that they had.
func TestLinuxPackets(t *testing.T) {
	text, err := os.ReadFile("testdata/rxe.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		ip := unhex(t, strings.TrimSpace(line))
		packet := ip[ip4Size+udpSize:]
		data, sent := packet[:len(packet)-CRCSize], packet[len(packet)-CRCSize:]
		var p pseudo
		p.fill(ends4(ip))
		id, ok := solve(crcOf(&p, data)^binary.LittleEndian.Uint32(sent), len(packet))
		if want := binary.BigEndian.Uint16(ip[idAt:]); !ok || id != want {
			t.Errorf("packet %d, opcode %#02x: identification %#04x, %v, want %#04x", n, packet[0], id, ok, want)
		}
	}
	if n < 20 {
		t.Errorf("only %d packets", n)
	}
}
