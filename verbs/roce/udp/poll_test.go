package udp

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// runSend sends to a path until the socket is closed.
func runSend(s *Socket, p *Path, v mem.Vec, done chan<- error) {
	var b Batch
	for {
		b.Add(p, make([]byte, bthSize), v)
		if err := s.Send(&b); errors.Is(err, net.ErrClosed) {
			done <- err
			return
		}
	}
}

// TestNoRoom: who has no room to send waits, and Close ends it.
func TestNoRoom(t *testing.T) {
	a, _ := netns.Hosts(t, 4400)
	s := openAt(t, a, a.IPv4.String())
	if err := s.socket.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	// Nobody has this address: packets for it take room until the kernel has found that out.
	nobody := a.IPv4.As4()
	nobody[3] = 200
	p := path(t, a.IPv4.String(), netip.AddrFrom4(nobody).String())
	v := mem.Vec{memtest.Arena(t, 4096).Seg(0, 4096)}
	const senders = 4
	done := make(chan error, senders)
	for range senders {
		go runSend(s, p, v, done)
	}
	for s.full.TryLock() { // until one waits for room
		s.full.Unlock()
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range senders {
		<-done
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
}
