package roce

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// hearErrors has the socket of an address fail to receive once an ICMP message
// reports that a port is closed, which such a socket does not learn otherwise.
func hearErrors(t *testing.T, at netip.Addr) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		fd, _ := strconv.Atoi(e.Name())
		sa, err := unix.Getsockname(fd)
		if in, ok := sa.(*unix.SockaddrInet4); err != nil || !ok || in.Port != udp.Port || netip.AddrFrom4(in.Addr) != at {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no socket has %v", at)
}

// wantBroken checks how something ended that a socket took with it.
func wantBroken(t *testing.T, what string, err error) {
	t.Helper()
	var ce *verbs.ConnError
	if !errors.As(err, &ce) || !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: %v (%T), want a *ConnError from the socket", what, err, err)
	}
}

// runAcceptRequest takes a request and sends the outcome.
func runAcceptRequest(ctx context.Context, l verbs.Listener, out chan<- error) {
	_, err := l.Accept(ctx)
	out <- err
}

// runWaitEnd waits for the end of a connection.
func runWaitEnd(ctx context.Context, c verbs.Conn, out chan<- error) {
	var wc [1]verbs.Completion
	for {
		if _, err := c.Wait(ctx, wc[:]); err != nil {
			out <- err
			return
		}
	}
}

// TestSocketFails: a socket that receives no more ends what uses it, whoever
// reads it, and the address can be used again.
func TestSocketFails(t *testing.T) {
	for _, waits := range []bool{false, true} {
		ctx := limited(t)
		own, at := rocetest.Loopback(t), rocetest.Loopback(t)
		c, s := newEnd(t, Config{Local: own}, 4096), newEnd(t, Config{}, 4096)
		dial(t, c, s, c.options(), at)
		broken, peer := c.conn, s.conn
		c.conn, s.conn = nil, nil

		// Beside the connection, the socket has a Dial that the peer leaves
		// waiting, and a listener.
		far, err := s.dev.Listen(netip.AddrPortFrom(at, 0), verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		dialed := make(chan error, 2)
		go runDialOnly(ctx, c, far.Addr(), dialed)
		req, err := far.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		near, err := c.dev.Listen(netip.AddrPortFrom(own, 0), verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		accepted, ended := make(chan error, 1), make(chan error, 1)
		go runAcceptRequest(ctx, near, accepted)
		if waits {
			go runWaitEnd(ctx, broken, ended)
		}

		hearErrors(t, own)
		// Nobody is there: the kernel says so by ICMP.
		go runDialOnly(ctx, c, netip.AddrPortFrom(rocetest.Loopback(t), 1), dialed)
		for range 2 {
			wantBroken(t, "dial", <-dialed)
		}
		wantBroken(t, "accept", <-accepted)
		if !waits {
			go runWaitEnd(ctx, broken, ended)
		}
		wantBroken(t, "connection", <-ended)
		go runWaitEnd(ctx, peer, ended)
		var ce *verbs.ConnError
		if err := <-ended; !errors.As(err, &ce) {
			t.Errorf("the peer's end: %v", err)
		}
		_ = req.Reject(nil) // who asked has left

		dial(t, c, s, c.options(), at)
		s.recv(1, s.arena.Seg(0, 8))
		c.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true})
		c.next(ctx)
		s.next(ctx)
		for _, x := range []interface{ Close() error }{broken, peer, near, c.conn, s.conn} {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
