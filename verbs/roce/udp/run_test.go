package udp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// arena is memory for payloads.

func TestPlan(t *testing.T) {
	a := memtest.Arena(t, 1<<16)
	p, other := path(t, "127.91.0.1", "127.91.0.2"), path(t, "127.91.0.1", "127.91.0.3")
	pieces := func(n, size int) (v mem.Vec) {
		for i := range n {
			v = append(v, a.Seg(i, size/n))
		}
		return v
	}
	type packet struct {
		p    *Path
		body mem.Vec
	}
	repeat := func(n int, x packet) []packet { return slices.Repeat([]packet{x}, n) }
	big, small, empty := packet{p, pieces(1, 1024)}, packet{p, pieces(1, 512)}, packet{p: p}
	for _, x := range []struct {
		name    string
		packets []packet
		apart   int
		want    []int // messages
	}{
		{"one", repeat(1, big), 0, []int{1}},
		{"of one size", repeat(60, big), 0, []int{60}},
		{"the last is shorter", []packet{big, big, small, small}, 0, []int{3, 1}},
		{"all shorter", []packet{big, small, empty}, 0, []int{2, 1}},
		{"all longer", []packet{empty, small, big, big}, 0, []int{1, 1, 2}},
		{"two paths", []packet{big, big, {other, big.body}, big}, 0, []int{2, 1, 1}},
		{"more than a datagram", repeat(32, packet{p, pieces(1, 4096)}), 0, []int{15, 15, 2}},
		{"more than 1024 pieces", repeat(64, packet{p, pieces(32, 64)}), 0, []int{30, 30, 4}},
		{"apart", repeat(8, big), 3, []int{1, 1, 1, 5}},
		{"never", repeat(4, big), math.MaxInt, []int{1, 1, 1, 1}},
	} {
		var b Batch
		b.apart = x.apart
		for _, y := range x.packets {
			b.Add(y.p, make([]byte, bthSize), y.body)
		}
		b.plan(0)
		var got []int
		for m := range b.made {
			got = append(got, b.begins[m+1]-b.begins[m])
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: messages of %v packets, want %v", x.name, got, x.want)
		}
	}
}

// TestLost: what is lost whenever there are runs has ever fewer of them; what is
// lost for other reasons has not.
func TestLost(t *testing.T) {
	var b Batch
	lose := func(ran, want int) {
		t.Helper()
		b.ran = ran
		b.Lost()
		if b.apart != want {
			t.Fatalf("%d packets apart, want %d", b.apart, want)
		}
		b.Lost() // it was not in a run
		if b.apart != want {
			t.Fatalf("%d packets apart after a loss without runs, want %d", b.apart, want)
		}
		b.apart = 0
	}
	for n := apartMin; n < apartMax; n *= 2 {
		lose(proofOfRuns-1, n)
	}
	lose(2, apartMax)
	lose(2, apartMax)
	for range 2 {
		lose(proofOfRuns, apartMin)
	}
	p, a := path(t, "127.91.0.1", "127.91.0.2"), memtest.Arena(t, 1<<16)
	b.ran = proofOfRuns
	b.Lost()
	for n := 0; n < apartMin+BatchSize; n += BatchSize {
		fill(&b, p, a, 256, nil)
		b.plan(0)
		b.n, b.vecs = 0, b.vecs[:0]
	}
	if b.apart != 0 || b.ran != BatchSize {
		t.Errorf("%d packets are still apart, %d went in runs", b.apart, b.ran)
	}
}

// fill fills b with packets of a size, and appends them to want.
func fill(b *Batch, p *Path, a *mem.Arena, size int, want [][]byte) [][]byte {
	for i := 0; !b.Full(); i++ {
		head := bytes.Repeat([]byte{byte(i + 1)}, bthSize)
		body := a.Seg(i, size)
		b.Add(p, head, mem.Vec{body})
		want = append(want, append(head, body.Bytes()...))
	}
	return want
}

// TestRefused: what is refused in a run arrives packet by packet, and runs are
// not tried again.
func TestRefused(t *testing.T) {
	from, to := free(t), free(t)
	s, d, p, a := open(t, from), open(t, to), path(t, from, to), memtest.Arena(t, 1<<16)
	var opt error
	if err := s.socket.Control(func(fd uintptr) {
		// A run needs a checksum.
		opt = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
	}); err != nil || opt != nil {
		t.Fatal(err, opt)
	}
	var b Batch
	for range 2 {
		want := fill(&b, p, a, 1024, nil)
		if err := s.Send(&b); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, d, NewInbox(), len(want)); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Error("not what was sent")
		}
	}
	if b.made != BatchSize {
		t.Errorf("%d packets in %d messages after runs were refused", BatchSize, b.made)
	}
}

// TestOldKernel: without the socket option nothing is sent in runs.
func TestOldKernel(t *testing.T) {
	s := open(t, free(t))
	s.runs = false
	p := path(t, s.Local().String(), s.Local().String())
	var b Batch
	want := fill(&b, p, memtest.Arena(t, 1<<16), 1024, nil)
	if err := s.Send(&b); err != nil || b.made != BatchSize {
		t.Errorf("%d messages, %v", b.made, err)
	}
	receive(t, s, NewInbox(), len(want))
}

// TestDamagedRun: of a run of which a packet is damaged, the others arrive.
func TestDamagedRun(t *testing.T) {
	s := open(t, free(t))
	if !s.runs {
		t.Skip("the kernel takes no runs")
	}
	p := path(t, s.Local().String(), s.Local().String())
	var b Batch
	want := fill(&b, p, memtest.Arena(t, 1<<16), 1000, nil)
	b.plan(0)
	b.tails[5][0] ^= 1
	if err := s.socket.Control(func(fd uintptr) { b.send(fd) }); err != nil || b.err != nil {
		t.Fatal(err, b.err)
	}
	in := NewInbox()
	got := receive(t, s, in, len(want)-1)
	if want = slices.Delete(want, 5, 6); !slices.EqualFunc(got, want, bytes.Equal) || in.Bad != 1 {
		t.Errorf("%d packets, %d bad", len(got), in.Bad)
	}
}

// TestOnTheCable: each packet of a run has the CRC that goes with its own
// IP header, as every other receiver wants it.
func TestOnTheCable(t *testing.T) {
	for _, version := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", version), func(t *testing.T) {
			a, b := netns.Hosts(t, 4400)
			from, to := a.IPv4, b.IPv4
			if version == 6 {
				from, to = a.IPv6, b.IPv6
			}
			if err := a.Cut(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "pcap")
			r := netns.Record(t, a, file)
			carry(t, openAt(t, a, from.String()), openAt(t, b, to.String()), path(t, from.String(), to.String()))
			r.Stop(t)
			packets, ids := strict(t, file, version)
			if packets < 5*BatchSize {
				t.Errorf("%d packets", packets)
			}
			if version == 4 && ids < BatchSize {
				t.Errorf("only %d packets that a run was cut into", ids)
			}
		})
	}
}

// strict checks the CRC of all RoCE packets in a file, and counts them and the
// IPv4 identifications that are not 0.
func strict(t *testing.T, file string, version int) (packets, ids int) {
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for all = all[24:]; len(all) > 0; {
		n := binary.NativeEndian.Uint32(all[8:])
		f := all[16 : 16+n]
		all = all[16+n:]
		ip := f[14:]
		var p pseudo
		var b []byte
		switch {
		case version == 4 && f[12] == 8 && f[13] == 0 && ip[9] == 17:
			id := binary.BigEndian.Uint16(ip[idAt:])
			p.fill(ends4(ip))
			p.identify(id)
			if id != 0 {
				ids++
			}
			b = ip[ip4Size+udpSize:]
		case version == 6 && f[12] == 0x86 && f[13] == 0xdd && ip[6] == 17:
			p.fill(netip.AddrPortFrom(netip.AddrFrom16([16]byte(ip[8:])), binary.BigEndian.Uint16(ip[40:])),
				netip.AddrPortFrom(netip.AddrFrom16([16]byte(ip[24:])), binary.BigEndian.Uint16(ip[42:])))
			b = ip[ip6Size+udpSize:]
		default:
			continue
		}
		packets++
		data := b[:len(b)-CRCSize]
		sum := crc32.Update(p.begin(len(b), data), crc32.IEEETable, data[bthSize:])
		if sum != binary.LittleEndian.Uint32(b[len(data):]) {
			t.Fatalf("packet %d: CRC is wrong: %x", packets, f[:64])
		}
	}
	return packets, ids
}

// TestTinyRun: a stranger's run of packets too small to be any is thrown away
// piece by piece.
func TestTinyRun(t *testing.T) {
	s := open(t, free(t))
	if !s.runs {
		t.Skip("the kernel takes no runs")
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.Local(), Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const size, count = 7, 63
	oob := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(oob[unix.CmsgLen(0):], size)
	if _, _, err := c.WriteMsgUDP(make([]byte, size*count), oob, nil); err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Add(path(t, s.Local().String(), s.Local().String()), make([]byte, bthSize), nil)
	if err := s.Send(&b); err != nil {
		t.Fatal(err)
	}
	in := NewInbox()
	if receive(t, s, in, 1); in.Bad != count {
		t.Errorf("%d packets thrown away of %d", in.Bad, count)
	}
}
