package reconnect_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// holder answers procedure 0, and others when they are let go.
type holder struct{ arrived, release chan struct{} }

func (h *holder) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc != 0 {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
		case <-ctx.Done():
		}
	}
	return transport.Success
}

// within makes its links in a host's network.
type within struct {
	transport.Dialer
	h netns.Host
}

func (d within) Dial(ctx context.Context) (l transport.Link, err error) {
	return l, d.h.Do(func() error {
		l, err = d.Dialer.Dial(ctx)
		return err
	})
}

// TestOutage cuts the network while a call waits for its reply, which is lost, so
// that nothing of the client's is outstanding. It must notice, and have another
// connection soon after the network is back, without more than a SYN a second.
func TestOutage(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, server netns.Host, h transport.Handler) transport.Dialer{
		"tcp": overTCP, "iwarp": overIWARP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := netns.Hosts(t, 1500)
			h := &holder{make(chan struct{}, 100), make(chan struct{})}
			stalled := make(chan struct{}, 1)
			c := reconnect.New(within{start(t, server, h), client}, reconnect.Config{
				Server: "srv", Timeo: time.Hour,
				Log: testlog.To(func(message string) {
					if strings.Contains(message, "stalled") {
						stalled <- struct{}{}
					}
				}),
			})
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a guard
			defer cancel()
			if err := c.Call(ctx, &transport.Call{Prog: 9, Vers: 1}); err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() { answered <- c.Call(ctx, &transport.Call{Prog: 9, Vers: 1, Proc: 1}) }()
			<-h.arrived
			syns := countSYNs(t, client)
			cut(t, client, server)
			close(h.release)
			select {
			case <-stalled:
			case <-ctx.Done():
				t.Fatal("nobody noticed")
			}
			began := time.Now()
			for range 3 {
				<-syns
			}
			heal(t, client, server)
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			after := len(syns)
			if after > 2 {
				t.Errorf("answered after %d more SYNs", after)
			}
			if most := 2 + int(time.Since(began)/time.Second); 3+after > most+1 {
				t.Errorf("%d SYNs, want at most %d", 3+after, most+1)
			}
			if s := c.Stats(); s.Timeouts != 0 || s.Resends != 1 || s.Connects != 2 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func overTCP(t *testing.T, server netns.Host, h transport.Handler) transport.Dialer {
	var ln net.Listener
	err := server.Do(func() (err error) {
		ln, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(server.IPv4, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(ctx, ln, h, tcp.ServerConfig{}) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	d, err := tcp.NewDialer(tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func overIWARP(t *testing.T, server netns.Host, h transport.Handler) transport.Dialer {
	theirs, ours := iwarp.Open(iwarp.Config{}), iwarp.Open(iwarp.Config{})
	var ln verbs.Listener
	err := server.Do(func() (err error) {
		ln, err = theirs.Listen(netip.AddrPortFrom(server.IPv4, 0), verbs.ListenOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpcrdma.NewServer(theirs, h, rpcrdma.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		if err := errors.Join(srv.Close(), ln.Close()); err != nil {
			t.Error(err)
		}
		<-served
		if err := errors.Join(theirs.Close(), ours.Close()); err != nil {
			t.Error(err)
		}
	})
	return rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: ours, Addr: ln.Addr()})
}

// cut has each host send to a card that is not there: nobody is told.
func cut(t *testing.T, a, b netns.Host) {
	neighbours(t, a, b, "neigh replace %v lladdr 02:00:00:00:00:99 nud permanent dev %s")
}

func heal(t *testing.T, a, b netns.Host) { neighbours(t, a, b, "neigh del %v dev %s") }

func neighbours(t *testing.T, a, b netns.Host, line string) {
	t.Helper()
	for _, x := range [][2]netns.Host{{a, b}, {b, a}} {
		if err := x[0].Do(func() error { return netns.IP(fmt.Sprintf(line, x[1].IPv4, netns.Link)) }); err != nil {
			t.Fatal(err)
		}
	}
}

// countSYNs returns a channel with a token for each SYN that a host sends.
func countSYNs(t *testing.T, h netns.Host) <-chan struct{} {
	var f *os.File
	err := h.Do(func() error {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all)
		if err == nil {
			f = os.NewFile(uintptr(fd), "frames")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	syns, done := make(chan struct{}, 10000), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<16)
		for {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			const syn, ack = 2, 16
			if n >= 40 && b[0] == 0x45 && b[9] == unix.IPPROTO_TCP && b[33]&(syn|ack) == syn &&
				binary.BigEndian.Uint32(b[12:]) == binary.BigEndian.Uint32(h.IPv4.AsSlice()) {
				syns <- struct{}{}
			}
		}
	}()
	t.Cleanup(func() {
		f.Close()
		<-done
	})
	return syns
}
