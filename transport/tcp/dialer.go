package tcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/stream"
)

// Defaults of Config.
const (
	DefaultMaxPayload = 1 << 20
	DefaultMaxRecord  = 8 << 20
	DefaultConcurrent = 64
)

// Config describes a server and how to reach it.
type Config struct {
	Addr netip.AddrPort
	// MaxPayload bounds the payload of one call each way; 0 means 1 MiB.
	MaxPayload int
	// MaxRecord bounds every record sent and received; 0 means 8 MiB. A reply
	// is further bounded by what its call allows.
	MaxRecord int
	// Concurrent is what Limits announces; 0 means 64.
	Concurrent int
	// LocalAddr is the address to connect from, if valid.
	LocalAddr netip.Addr
	// Callbacks, if set, serves the calls that the server makes on our connections
	// (as RFC 8881 section 2.10.3.1 has it for NFSv4.1), at most
	// CallbackConcurrent (0 means 16) at a time on each. A call of more than
	// CallbackMax bytes (0 means 64 KiB), or one too many, is dropped.
	Callbacks                       transport.Handler
	CallbackConcurrent, CallbackMax int
	// ReservedPort connects from a port below 1024, which needs privileges and
	// which servers ask for unless the export is insecure.
	ReservedPort bool
	// Upgrade, if set, has each new connection to itself before the first record, and
	// returns what carries the records: conn, or a conn over it. RFC 9289 begins so: a
	// NULL call with the flavor AUTH_TLS, then TLS on the same socket. Its reads
	// and writes fail once ctx, that of Dial, has ended; it leaves no deadline set.
	// An error is one of connecting; conn is closed by the Dialer then.
	//
	// Of the conn that it returns, Close ends conn; a deadline that passes stops
	// a Read or Write, and the conn is usable again once the deadline is moved. If it is
	// not, as a tls.Conn after Write, a call that is cancelled in the middle of its
	// record ends the link. If it has NetConn, as a tls.Conn, that is conn. If it is
	// a BuffersWriter, it is written to in that way.
	Upgrade func(ctx context.Context, conn net.Conn) (net.Conn, error)
}

// Dialer makes links to one server. It implements transport.Dialer.
type Dialer struct {
	cfg   Config
	stats counters
}

var _ transport.Dialer = (*Dialer)(nil)

// counters are those of transport.Stats that a stream has.
type counters struct {
	calls, replies         atomic.Uint64
	connects, connectFails atomic.Uint64
	badXIDs, badReplies    atomic.Uint64
	sent, received         atomic.Uint64
	callbacks              atomic.Uint64
}

// NewDialer returns a Dialer; it connects to nothing yet.
func NewDialer(cfg Config) (*Dialer, error) {
	if !cfg.Addr.IsValid() || cfg.Addr.Port() == 0 {
		return nil, fmt.Errorf("tcp: %v is not a server's address and port", cfg.Addr)
	}
	setDefault(&cfg.MaxPayload, DefaultMaxPayload)
	setDefault(&cfg.MaxRecord, DefaultMaxRecord)
	setDefault(&cfg.Concurrent, DefaultConcurrent)
	setDefault(&cfg.CallbackConcurrent, 16)
	setDefault(&cfg.CallbackMax, 64<<10)
	cfg.MaxRecord = min(cfg.MaxRecord, 1<<maxClass)
	return &Dialer{cfg: cfg}, nil
}

func setDefault(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}

// Dial connects.
func (d *Dialer) Dial(ctx context.Context) (transport.Link, error) {
	path := transport.PathOf(ctx, transport.Path{Remote: d.cfg.Addr, Local: d.cfg.LocalAddr})
	conn, err := d.connect(ctx, path)
	if err != nil {
		d.stats.connectFails.Add(1)
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // the address is named already
		}
		return nil, fmt.Errorf("connect to %v: %w", path.Remote, err)
	}
	// Closing must discard what was not sent yet. The kernel would otherwise go on
	// sending it, for minutes, and a WRITE that arrives after it was resent on
	// another connection undoes what was written since.
	if tc, ok := conn.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	sock := newPollingReader(conn)
	if d.cfg.Upgrade != nil {
		if conn, err = d.upgrade(ctx, polled(conn, sock)); err != nil {
			d.stats.connectFails.Add(1)
			return nil, fmt.Errorf("connect to %v: %w", path.Remote, err)
		}
	}
	d.stats.connects.Add(1)
	return newLink(d, conn, sock, path.Remote), nil
}

// upgrade has Config.Upgrade make of a socket what carries the records.
func (d *Dialer) upgrade(ctx context.Context, socket net.Conn) (conn net.Conn, err error) {
	err = within(ctx, socket, func() error {
		conn, err = d.cfg.Upgrade(ctx, socket)
		return err
	})
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return conn, nil
}

// within has do use conn, whose reads and writes fail once ctx has ended.
func within(ctx context.Context, conn net.Conn, do func() error) error {
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		_ = conn.SetDeadline(time.Unix(1, 0)) // a closed one fails as well
	})
	err := do()
	if !stop() {
		<-expired
		err = context.Cause(ctx) // whatever that made do return
	}
	return err
}

func (d *Dialer) connect(ctx context.Context, path transport.Path) (net.Conn, error) {
	nd := net.Dialer{KeepAliveConfig: keepAlive}
	to := path.Remote.String()
	if !d.cfg.ReservedPort {
		if path.Local.IsValid() {
			nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(path.Local, 0))
		}
		return stream.Dial(ctx, nd, to)
	}
	// The ports that Linux uses, from a random one on: above rsync's and
	// below 1024, with few services of their own.
	const low, count = 665, 1024 - 665
	start := rand.IntN(count)
	busy, last := false, error(nil)
	for i := range count {
		local := netip.AddrPortFrom(path.Local, uint16(low+(start+i)%count))
		nd.LocalAddr = &net.TCPAddr{Port: int(local.Port())}
		if local.Addr().IsValid() {
			nd.LocalAddr = net.TCPAddrFromAddrPort(local)
		}
		conn, err := stream.Dial(ctx, nd, to)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return conn, err
		}
		last = err
		busy = busy || errors.Is(err, syscall.EADDRINUSE)
	}
	if !busy { // the address is not ours
		return nil, last
	}
	return nil, fmt.Errorf("every reserved port is in use: %w", syscall.EADDRINUSE)
}

// keepAlive detects dead peers of idle connections within two minutes; timeouts
// detect those of busy ones.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 10 * time.Second, Count: 6}

// Register does nothing: a socket takes any memory.
func (d *Dialer) Register(*mem.Arena) error { return nil }

// Unregister does nothing.
func (d *Dialer) Unregister(*mem.Arena) error { return nil }

// Limits are those of one link.
func (d *Dialer) Limits() transport.Limits {
	return transport.Limits{MaxSend: d.cfg.MaxPayload, MaxRecv: d.cfg.MaxPayload, Concurrent: d.cfg.Concurrent}
}

// Stats sums over all links made.
func (d *Dialer) Stats() transport.Stats {
	s := &d.stats
	return transport.Stats{
		Calls: s.calls.Load(), Replies: s.replies.Load(),
		Connects: s.connects.Load(), ConnectFails: s.connectFails.Load(),
		BadXIDs: s.badXIDs.Load(), BadReplies: s.badReplies.Load(),
		BytesSent: s.sent.Load(), BytesReceived: s.received.Load(),
		Callbacks: s.callbacks.Load(),
	}
}

// Close does nothing: a Dialer holds no resources.
func (d *Dialer) Close() error { return nil }
