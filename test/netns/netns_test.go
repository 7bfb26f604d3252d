package netns

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

const port = 4791

func listen(t *testing.T, h Host, a netip.Addr) (c *net.UDPConn) {
	t.Helper()
	err := h.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, port)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// receive takes n datagrams of eight bytes and returns their numbers.
func receive(t *testing.T, c *net.UDPConn, n int) []uint64 {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for b := make([]byte, 64); len(got) < n; {
		if k, err := c.Read(b); err != nil || k != 8 {
			t.Fatalf("after %d of %d datagrams: %d bytes, %v", len(got), n, k, err)
		}
		got = append(got, binary.BigEndian.Uint64(b))
	}
	return got
}

func send(t *testing.T, c *net.UDPConn, to netip.Addr, number uint64) {
	t.Helper()
	if _, err := c.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(nil, number), netip.AddrPortFrom(to, port)); err != nil {
		t.Fatal(err)
	}
}

// runCollect receives until the socket is closed, or nothing comes for long.
func runCollect(c *net.UDPConn, out chan<- uint64) {
	defer close(out)
	for b := make([]byte, 64); ; {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(b); err != nil {
			return
		}
		out <- binary.BigEndian.Uint64(b)
	}
}

// waitSeen waits until the relay has seen n frames.
func (r *Relay) waitSeen(n uint64) {
	for r.Seen.Load() < n {
		runtime.Gosched()
	}
}

// TestRelay: what arrives is what was sent, less what was lost, and what was
// doubled twice; in order unless it was reordered.
func TestRelay(t *testing.T) {
	const n = 200
	for name, w := range map[string]Weather{
		"clear":    {},
		"loss":     {Loss: 0.2, Seed: 1},
		"double":   {Double: 0.2, Seed: 2},
		"disorder": {Reorder: 0.2, Seed: 3},
		"delay":    {Delay: 5 * time.Millisecond, Seed: 4},
		"all":      {Loss: 0.1, Double: 0.1, Reorder: 0.1, Delay: time.Millisecond, Seed: 5},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, r := RelayedHosts(t, 1500, w)
			from, to := listen(t, a, a.IPv4), listen(t, b, b.IPv4)
			came := make(chan uint64, 4*n)
			go runCollect(to, came)
			for i := range uint64(n) {
				send(t, from, b.IPv4, i)
				r.waitSeen(i + 1) // so that no queue overflows
			}
			want := n - r.Lost.Load() + r.Doubled.Load()
			seen := make(map[uint64]int)
			inOrder, last := true, uint64(0)
			for range want {
				x, ok := <-came
				if !ok {
					t.Fatal("datagrams are missing")
				}
				inOrder = inOrder && x >= last
				last = x
				seen[x]++
			}
			to.Close()
			for x := range came {
				t.Errorf("datagram %d is one too many", x)
			}
			if lost := n - len(seen); uint64(lost) != r.Lost.Load() || (lost > 0) != (w.Loss > 0) {
				t.Errorf("%d datagrams never came, the relay lost %d", lost, r.Lost.Load())
			}
			if (r.Doubled.Load() > 0) != (w.Double > 0) || (r.Reordered.Load() > 0) != (w.Reorder > 0) {
				t.Errorf("%d doubled, %d reordered", r.Doubled.Load(), r.Reordered.Load())
			}
			if disorder := w.Double > 0 || w.Reorder > 0; !disorder && !inOrder {
				t.Error("out of order without a reason")
			}
		})
	}
}

// TestRecorder: each frame that passes is in the file, in both directions, by
// both versions of IP.
func TestRecorder(t *testing.T) {
	a, b := Hosts(t, 1500)
	file := filepath.Join(t.TempDir(), "pcap")
	r := Record(t, a, file)
	for _, x := range [][2]netip.Addr{{a.IPv4, b.IPv4}, {a.IPv6, b.IPv6}} {
		here, there := listen(t, a, x[0]), listen(t, b, x[1])
		for i := range uint64(10) {
			send(t, here, x[1], i)
			receive(t, there, 1)
			send(t, there, x[0], i)
			receive(t, here, 1)
		}
	}
	r.Stop(t)
	d, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for d = d[24:]; len(d) > 0; {
		n := binary.NativeEndian.Uint32(d[8:])
		if isRoCE(d[16 : 16+n]) {
			frames++
		}
		d = d[16+n:]
	}
	if frames != 40 {
		t.Errorf("%d frames of 40", frames)
	}
}
