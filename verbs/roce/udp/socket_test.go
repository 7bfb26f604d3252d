package udp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

func open(t *testing.T, addr string) *Socket {
	t.Helper()
	s, err := Open(netip.MustParseAddr(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// free is a loopback address whose port is not in use: other tests run at the same
// time.
func free(t *testing.T) string {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), byte(1 + rand.IntN(250))})
		if s, err := Open(a); err == nil {
			s.Close()
			return a.String()
		}
	}
	t.Fatal("no loopback address has port 4791 free")
	return ""
}

func path(t *testing.T, from, to string) *Path {
	t.Helper()
	p, err := NewPath(netip.MustParseAddr(from), netip.MustParseAddr(to))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func receive(t *testing.T, s *Socket, in *Inbox, n int) [][]byte {
	t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for len(all) < n {
		if err := s.Recv(in); err != nil {
			t.Fatalf("after %d of %d packets: %v", len(all), n, err)
		}
		for p := in.Next(); p != nil; p = in.Next() {
			all = append(all, bytes.Clone(p.Data))
		}
	}
	return all
}

func TestPackets(t *testing.T) {
	t.Run("loopback", func(t *testing.T) {
		from, to := free(t), free(t)
		carry(t, open(t, from), open(t, to), path(t, from, to))
	})
	// Between two hosts, by each version of IP.
	for _, version := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", version), func(t *testing.T) {
			a, b := netns.Hosts(t, 4400)
			from, to := a.IPv4, b.IPv4
			if version == 6 {
				from, to = a.IPv6, b.IPv6
			}
			carry(t, openAt(t, a, from.String()), openAt(t, b, to.String()), path(t, from.String(), to.String()))
		})
	}
}

// openAt opens a socket at a host.
func openAt(t *testing.T, h netns.Host, addr string) (s *Socket) {
	t.Helper()
	if err := h.Do(func() error { s = open(t, addr); return nil }); err != nil {
		t.Fatal(err)
	}
	return s
}

// carry sends packets of many shapes from s to d.
func carry(t *testing.T, s, d *Socket, p *Path) {
	a := memtest.Arena(t, 1<<16)
	for i, b := 0, a.Bytes(); i < len(b); i++ {
		b[i] = byte(i * 7)
	}
	in := NewInbox()
	var b Batch
	// While the neighbour is looked for, only so many packets wait.
	b.Add(p, make([]byte, bthSize), nil)
	if err := s.Send(&b); err != nil {
		t.Fatal(err)
	}
	receive(t, d, in, 1)
	var want [][]byte
	for round := range 4 {
		for i := 0; !b.Full(); i++ {
			head := bytes.Repeat([]byte{byte(i + 1)}, bthSize+4*(i%8))
			var body mem.Vec
			if i%3 != 0 {
				body = mem.Vec{a.Seg(i, 3*i), a.Seg(0, 0), a.Seg(1000+round, i%5)}
			}
			if i == 63 {
				body = mem.Vec{a.Seg(5, 4096)}
			}
			b.Add(p, head, body)
			whole := append([]byte(nil), head...)
			for _, s := range body {
				whole = append(whole, s.Bytes()...)
			}
			want = append(want, append(whole, make([]byte, -len(whole)&3)...))
		}
		if err := s.Send(&b); err != nil || b.Len() != 0 {
			t.Fatalf("%d packets left, %v", b.Len(), err)
		}
	}
	for _, size := range []int{1024, 1000, 4096} {
		want = fill(&b, p, a, size, want)
		if err := s.Send(&b); err != nil {
			t.Fatal(err)
		}
	}
	for i, got := range receive(t, d, in, len(want)) {
		if !bytes.Equal(got, want[i]) {
			t.Fatalf("packet %d: %x, want %x", i, got, want[i])
		}
	}
	if in.Bad != 0 {
		t.Errorf("%d packets thrown away", in.Bad)
	}
	if got := in.packet; got.From != p.From() || got.To != p.To() {
		t.Errorf("from %v to %v", got.From, got.To)
	}
	if err := d.TryRecv(in); err != nil || in.Next() != nil {
		t.Errorf("a packet out of nothing, %v", err)
	}
}

// TestUnspecified: what is sent leaves from the path's address, whatever the
// socket is bound to.
func TestUnspecified(t *testing.T) {
	a, _ := netns.Hosts(t, 1500) // where no other process has the port
	s := openAt(t, a, "0.0.0.0")
	in := NewInbox()
	var b Batch
	b.Add(path(t, "127.91.0.7", "127.91.0.8"), make([]byte, bthSize), nil)
	if err := s.Send(&b); err != nil {
		t.Fatal(err)
	}
	receive(t, s, in, 1)
	if p := in.packet; p.From.String() != "127.91.0.7" || p.To.String() != "127.91.0.8" {
		t.Errorf("from %v to %v", p.From, p.To)
	}
}

func TestInUse(t *testing.T) {
	s := open(t, free(t))
	var in *InUseError
	if _, err := Open(s.Local()); !errors.As(err, &in) || in.Addr != s.Local() {
		t.Errorf("opened again: %v", err)
	}
}

func TestRefusedAddresses(t *testing.T) {
	for _, a := range []netip.Addr{{}, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::1%lo"), netip.MustParseAddr("::ffff:1.2.3.4")} {
		if s, err := Open(a); err == nil {
			s.Close()
			t.Errorf("%v was opened", a)
		}
		if _, err := RouteTo(a, netip.Addr{}); err == nil {
			t.Errorf("%v has a route", a)
		}
	}
	if _, err := NewPath(netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("there is a path between two versions of IP")
	}
}

func TestRoute(t *testing.T) {
	r, err := RouteTo(netip.MustParseAddr("127.91.0.2"), netip.MustParseAddr("127.91.0.1"))
	if err != nil || r.Local.String() != "127.91.0.1" || r.MTU < 1500 {
		t.Errorf("%+v, %v", r, err)
	}
	for mtu, want := range map[int]int{65536: 4096, 9000: 4096, 4192: 4096, 4191: 2048, 1500: 1024, 1119: 512, 68: 256} {
		if got := (Route{MTU: mtu}).Payload(); got != want {
			t.Errorf("MTU %d: payload %d, want %d", mtu, got, want)
		}
	}
}

func TestDeadlineAndClose(t *testing.T) {
	s := open(t, free(t))
	in := NewInbox()
	if err := s.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := s.Recv(in); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Recv past its deadline: %v", err)
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go runRecv(s, in, done)
	s.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv of a closed socket: %v", err)
	}
	var b Batch
	b.Add(path(t, s.Local().String(), "127.91.0.11"), make([]byte, bthSize), nil)
	if err := s.Send(&b); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send on a closed socket: %v", err)
	}
}

func runRecv(s *Socket, in *Inbox, done chan<- error) { done <- s.Recv(in) }

// TestDamage: of a good packet, every byte of which is damaged in turn, not one
// passes; nor do packets that are too short, too long, or not of whole words.
func TestDamage(t *testing.T) {
	s := open(t, free(t))
	from, to := netip.MustParseAddrPort(free(t)+":4791"), netip.AddrPortFrom(s.Local(), Port)
	c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var p pseudo
	p.fill(from, to)
	packet := []byte("head of 12.. and a payload of 36 byte")[:36]
	whole := func() []byte {
		sum := crcOf(&p, packet)
		return append(bytes.Clone(packet), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	}
	write := func(b []byte) {
		t.Helper()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	good := whole()
	sent := uint64(0)
	for i := range good {
		if i == variant {
			continue
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		write(bad)
		sent++
	}
	for _, n := range []int{0, 1, 4, 15, 37, MaxPacket + 1, MaxPacket + 4} {
		write(make([]byte, n))
		sent++
	}
	marked := bytes.Clone(good)
	marked[variant] = 0x80 // a congestion mark is no damage
	write(marked)
	in := NewInbox()
	if got := receive(t, s, in, 1); !bytes.Equal(got[0], marked[:36]) {
		t.Errorf("got %x", got[0])
	}
	if in.Bad != sent {
		t.Errorf("%d packets thrown away of %d", in.Bad, sent)
	}
}

func TestPlausible(t *testing.T) {
	var s idents
	peer, now := netip.MustParseAddr("10.0.0.1"), time.Unix(1000, 0)
	id := uint16(65000)
	say := func(v uint16) bool { id = v; return s.plausible(now, peer, v) }
	for i := range 100 {
		if !say(uint16(i * 7919)) {
			t.Fatal("a peer not known yet is not believed")
		}
	}
	for range proof + 1 {
		if !say(id + 3) {
			t.Fatal("a peer that counts is not believed")
		}
	}
	if say(id + near) {
		t.Error("a regular peer's jump is believed")
	}
	if !say(id+near) || !say(id+5000) {
		t.Error("a peer that jumped twice is not believed")
	}
	for range proof + 1 {
		say(id)
	}
	now = now.Add(forgetful)
	if !say(id + 20000) {
		t.Error("after a pause, a jump is not believed")
	}
}

// TestNoAllocation: nothing is allocated between packets.
func TestNoAllocation(t *testing.T) {
	s := open(t, free(t))
	in := NewInbox()
	p := path(t, s.Local().String(), s.Local().String())
	head := make([]byte, 28)
	var b Batch
	if n := testing.AllocsPerRun(50, func() {
		b.Add(p, head, nil)
		if err := s.Send(&b); err != nil {
			t.Fatal(err)
		}
		if err := s.Recv(in); err != nil {
			t.Fatal(err)
		}
		if in.Next() == nil {
			t.Fatal("no packet")
		}
		if err := s.TryRecv(in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}
