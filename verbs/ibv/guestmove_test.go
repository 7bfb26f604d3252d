//go:build guest && cgo

package ibv

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// side is a device with an arena, and at most one connection.
type side struct {
	dev   verbs.Device
	arena *mem.Arena
	conn  verbs.Conn
}

func newSide(t *testing.T, c Config) *side {
	t.Helper()
	a, err := mem.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{dev: open(t, c), arena: a}
	mr, err := s.dev.Register(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.hangUp(t)
		if err := errors.Join(mr.Close(), s.dev.Close(), a.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *side) hangUp(t *testing.T) {
	if s.conn != nil {
		if err := s.conn.Close(); err != nil {
			t.Error(err)
		}
		s.conn = nil
	}
}

func (s *side) options() verbs.ConnOptions {
	return verbs.ConnOptions{SendQueue: 16, RecvQueue: 4, ReadsIn: 1, Prepare: func(q verbs.QP) error {
		_, err := q.PostRecv([]verbs.RecvWR{{ID: 1, Buf: s.arena.Seg(0, 4096)}})
		return err
	}}
}

// connect connects both sides at an address of the server's, whose port may be 0,
// and sends a message.
func connect(t *testing.T, client, server *side, at netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := server.dev.Listen(at, verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go runAcceptOne(ctx, l, server, accepted)
	client.conn, err = client.dev.Dial(ctx, l.Addr(), client.options())
	if err := errors.Join(err, <-accepted); err != nil {
		client.conn = nil
		t.Fatal(err)
	}
	word := client.arena.Seg(8192, 5)
	copy(word.Bytes(), "hello")
	if _, err := client.conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Local: mem.Vec{word}}}); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.Completion
	if _, err := server.conn.Wait(ctx, wc[:]); err != nil || string(server.arena.Seg(0, wc[0].Len).Bytes()) != "hello" {
		t.Fatalf("received %+v, %v", wc[0], err)
	}
}

func runAcceptOne(ctx context.Context, l verbs.Listener, s *side, out chan<- error) {
	r, err := l.Accept(ctx)
	if err == nil {
		s.conn, err = r.Accept(ctx, s.options())
	}
	out <- err
}

// shell runs a command that is to succeed.
func shell(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("/bin/bash", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// kind is the driver of the guest's adapter, "rxe" or "siw".
func kind(t *testing.T) string {
	t.Helper()
	d := open(t, Config{Peer: adapterAddr(t)})
	defer d.Close()
	return strings.TrimRight(d.Caps().Device, "0123456789")
}

func TestIPv6(t *testing.T) {
	at := netip.MustParseAddr("fd00:77::1")
	shell(t, "ip addr add "+at.String()+"/64 dev eth0 nodad")
	t.Cleanup(func() { shell(t, "ip addr del "+at.String()+"/64 dev eth0") })
	c := Config{Peer: netip.AddrPortFrom(at, 0)}
	client, server := newSide(t, c), newSide(t, c)
	connect(t, client, server, netip.AddrPortFrom(at, 0))
	if got := client.conn.LocalAddr().Addr(); got != at {
		t.Errorf("connected from %s", got)
	}
}

// TestNamedAdapter: the name decides, or nothing does.
func TestNamedAdapter(t *testing.T) {
	at := adapterAddr(t)
	name := kind(t) + "0"
	c := Config{Peer: at, Adapter: name}
	client, server := newSide(t, c), newSide(t, Config{Peer: at})
	connect(t, client, server, at)
	var missing *UnavailableError
	if _, err := Open(t.Context(), Config{Peer: at, Adapter: "none0"}); !errors.As(err, &missing) {
		t.Errorf("an adapter that is not there: %v", err)
	}
}

// TestIdleAdapterIsLeft: an adapter that no Dial has chosen last, and that has no
// connection, keeps nothing pinned.
func TestIdleAdapterIsLeft(t *testing.T) {
	a, b := adapterAddr(t), netip.MustParseAddrPort("10.78.0.1:0")
	shell(t, "ip link add dum8 type dummy && ip link set dum8 address 02:00:00:00:00:78 up && ip addr add 10.78.0.1/24 dev dum8 && "+
		"rdma link add "+kind(t)+"8 type "+kind(t)+" netdev dum8")
	c := Config{Peer: a}
	client, server := newSide(t, c), newSide(t, c)
	connect(t, client, server, a)
	first := *client
	defer first.hangUp(t)
	defer (&side{conn: server.conn}).hangUp(t)
	connect(t, client, server, b)
	client.hangUp(t)
	server.hangUp(t)
	connect(t, client, server, a)
	// librdmacm may list an adapter anew, as another, when one is added: the
	// first connection can thus have a domain of its own.
	for a, dom := range client.dev.(*device).domains {
		if dom.conns == 0 {
			t.Errorf("adapter %s has the arenas registered, and no connection uses it", a.name)
		}
	}
}

// TestPortTaken: a socket has the port that the connection manager chooses first,
// which is never the one it chose last.
func TestPortTaken(t *testing.T) {
	if kind(t) != "siw" {
		t.Skip("only iWARP's ports are TCP's")
	}
	at := adapterAddr(t)
	client, server := newSide(t, Config{Peer: at}), newSide(t, Config{Peer: at})
	const choices = "/proc/sys/net/ipv4/ip_local_port_range"
	before, err := os.ReadFile(choices)
	if err == nil {
		err = os.WriteFile(choices, []byte("40000 40001"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(choices, before, 0); err != nil {
			t.Error(err)
		}
	})
	taken, err := net.Listen("tcp", netip.AddrPortFrom(at.Addr(), 40000).String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	for range 2 {
		l, err := server.dev.Listen(netip.AddrPortFrom(at.Addr(), 0), verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Addr().Port(); got != 40001 {
			t.Errorf("listens on port %d", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	connect(t, client, server, netip.AddrPortFrom(at.Addr(), 40100))
	if got := client.conn.LocalAddr().Port(); got != 40001 {
		t.Errorf("connected from port %d", got)
	}
}

// TestPortDownAndRouteMoved takes the port away under a connection, which ends
// it on both sides, and the address to another adapter, which the next Dial uses.
func TestPortDownAndRouteMoved(t *testing.T) {
	at := netip.MustParseAddr("10.77.0.1")
	first := kind(t) + "7"
	shell(t, "ip link add dum7 type dummy && ip link set dum7 address 02:00:00:00:00:77 up && ip addr add 10.77.0.1/24 dev dum7 && "+
		"rdma link add "+first+" type "+kind(t)+" netdev dum7")
	c := Config{Peer: netip.AddrPortFrom(at, 0)}
	client, server := newSide(t, c), newSide(t, c)
	if got := client.dev.Caps().Device; got != first {
		t.Fatalf("the route leads to %s, want %s", got, first)
	}
	connect(t, client, server, netip.AddrPortFrom(at, 0))

	shell(t, "ip link set dum7 down")
	for name, s := range map[string]*side{"client": client, "server": server} {
		var wc [4]verbs.Completion
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		_, err := s.conn.Wait(ctx, wc[:])
		cancel()
		var ce *verbs.ConnError
		if !errors.As(err, &ce) {
			t.Errorf("%s: with its port down the connection ended with %v", name, err)
		}
		t.Logf("%s: %v", name, err)
		s.hangUp(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if conn, err := client.dev.Dial(ctx, netip.AddrPortFrom(at, 1), client.options()); err == nil {
		conn.Close()
		t.Error("dialed through a port that is down")
	}

	shell(t, "ip addr del 10.77.0.1/24 dev dum7 && ip addr add 10.77.0.1/24 dev eth0")
	// The kernel removes no adapter that a process has open: the other one stays.
	t.Cleanup(func() { shell(t, "ip addr del 10.77.0.1/24 dev eth0") })
	awaitListen(t, server, at)
	connect(t, client, server, netip.AddrPortFrom(at, 0))
	if got := client.dev.Caps().Device; got == first {
		t.Errorf("the route moved, and %s is still used", got)
	}
}

// awaitListen returns when the kernel has given an address to an adapter, which it does on a queue of its own
// after the network device has it.
func awaitListen(t *testing.T, s *side, at netip.Addr) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		l, err := s.dev.Listen(netip.AddrPortFrom(at, 0), verbs.ListenOptions{})
		if err == nil {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, syscall.ENODEV) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
