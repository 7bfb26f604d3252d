package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctest"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

// cutListener can sever the connections that were accepted through it.
type cutListener struct {
	verbs.Listener
	mu    sync.Mutex
	conns []verbs.Conn
}

type cutRequest struct {
	verbs.Request
	l *cutListener
}

func (l *cutListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return cutRequest{r, l}, nil
}

func (r cutRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := r.Request.Accept(ctx, o)
	if err == nil {
		r.l.mu.Lock()
		r.l.conns = append(r.l.conns, c)
		r.l.mu.Unlock()
	}
	return c, err
}

func (l *cutListener) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// warmProg is a program that only the test's own first calls name.
const warmProg = 0x20f5ffff

// warmDialer makes a call on every new link before it is used: until the first
// reply a connection has one credit (RFC 8166 section 3.3.3), and calls that
// the suite has the server hold would keep others from being sent. Its calls
// are neither counted nor served by the suite's program.
type warmDialer struct {
	transport.Dialer
	mu    sync.RWMutex // read-locked for each such call, so that Stats sees whole ones
	calls atomic.Uint64
}

func (d *warmDialer) Dial(ctx context.Context) (transport.Link, error) {
	l, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.RLock()
	err = l.Exchange(ctx, 0, &transport.Call{Prog: warmProg})
	if err == nil {
		d.calls.Add(1)
	}
	d.mu.RUnlock()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Limits says that links need no greeting: they have had one.
func (d *warmDialer) Limits() transport.Limits {
	l := d.Dialer.Limits()
	l.First = 0
	return l
}

func (d *warmDialer) Stats() transport.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.Dialer.Stats()
	n := d.calls.Load()
	s.Calls -= n
	s.Replies -= n
	return s
}

type warmHandler struct{ transport.Handler }

func (h warmHandler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog == warmProg {
		return transport.Success
	}
	return h.Handler.Serve(ctx, q)
}

// devices are the server's and the client's, and where the server listens.
type devices func(*testing.T) (theirs, ours verbs.Device, at netip.AddrPort)

func overIWARP(c iwarp.Config) devices {
	return func(*testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
		return iwarp.Open(c), iwarp.Open(c), netip.MustParseAddrPort("127.0.0.1:0")
	}
}

func overRoCE(t *testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
	return roce.Open(roce.Config{}), roce.Open(roce.Config{Local: rocetest.Loopback(t)}), netip.AddrPortFrom(rocetest.Loopback(t), 0)
}

// callerOver makes callers whose connections speak the version and have the
// inline size given, both ways.
func callerOver(version uint32, inline, nconnect int, noDDP bool, open devices) rpctest.NewCaller {
	both := callerBothWays(version, inline, nconnect, noDDP, open)
	return func(t *testing.T, h transport.Handler) (transport.Caller, func()) { return both(t, h, nil) }
}

// callerBothWays is callerOver where callbacks, if set, serves the server's calls.
func callerBothWays(version uint32, inline, nconnect int, noDDP bool, open devices) rpctest.NewBackward {
	return func(t *testing.T, h, callbacks transport.Handler) (transport.Caller, func()) {
		const payload = 1<<20 + 4096
		theirs, ours, at := open(t)
		inner, err := theirs.Listen(at, verbs.ListenOptions{Backlog: 16})
		if err != nil {
			t.Fatal(err)
		}
		ln := &cutListener{Listener: inner}
		cfg := rpcrdma.ServerConfig{InlineIn: inline, InlineOut: inline, MaxPayload: payload}
		if callbacks != nil {
			cfg.Backward = 8
		}
		srv, err := rpcrdma.NewServer(theirs, warmHandler{h}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(context.Background(), ln) }()
		caller := reconnect.New(&warmDialer{Dialer: rpcrdma.NewDialer(rpcrdma.DialerConfig{
			Device: ours, Addr: ln.Addr(),
			InlineSend: inline, InlineRecv: inline, NoDDP: noDDP, MaxPayload: payload, Callbacks: callbacks,
			TryVersion2: version == rpcrdma.Version2,
		})}, reconnect.Config{Server: "suite", Timeo: time.Hour, Probe: -1, NConnect: nconnect})
		t.Cleanup(func() {
			// A link that is cut before its first reply has the next fall back.
			if s := caller.Stats(); s.Terms.Version != int(version) && s.Connects == uint64(nconnect) {
				t.Errorf("calls went in version %d", s.Terms.Version)
			}
			_ = caller.Close() // the second time in a test that closes it itself
			if err := srv.Close(); err != nil {
				t.Errorf("server: %v", err)
			}
			if err := <-served; !errors.Is(err, transport.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
			if err := errors.Join(inner.Close(), theirs.Close(), ours.Close()); err != nil {
				t.Error(err)
			}
		})
		return caller, ln.cut
	}
}

func TestSuite(t *testing.T) {
	for name, open := range map[string]devices{"iwarp": overIWARP(iwarp.Config{}), "roce": overRoCE} {
		for _, version := range []uint32{rpcrdma.Version1, rpcrdma.Version2} {
			for _, inline := range []int{1024, 4096, 65536} {
				for _, noDDP := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, version %d, inline %d, noddp %v", name, version, inline, noDDP), func(t *testing.T) {
						rpctest.Run(t, callerOver(version, inline, 1, noDDP, open))
					})
				}
			}
		}
	}
}

func TestSuiteBackward(t *testing.T) {
	for name, open := range map[string]devices{"iwarp": overIWARP(iwarp.Config{}), "roce": overRoCE} {
		for _, version := range []uint32{rpcrdma.Version1, rpcrdma.Version2} {
			t.Run(fmt.Sprintf("%s, version %d", name, version), func(t *testing.T) {
				rpctest.RunBackward(t, callerBothWays(version, 4096, 1, false, open))
			})
		}
	}
}

func TestSuiteOverSeveralLinks(t *testing.T) {
	for name, open := range map[string]devices{"iwarp": overIWARP(iwarp.Config{}), "roce": overRoCE} {
		t.Run(name, func(t *testing.T) { rpctest.Run(t, callerOver(rpcrdma.Version1, 4096, 4, false, open)) })
	}
}

func TestSuiteWithCRC(t *testing.T) {
	rpctest.Run(t, callerOver(rpcrdma.Version1, 4096, 1, false, overIWARP(iwarp.Config{CRC: true, AlignToMSS: true})))
}
