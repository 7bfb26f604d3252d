package nfsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
)

// listener is one address that is served.
type listener struct {
	network string // "tcp" or "rdma"
	// addr is fixed once it is in Server.listeners: a restart asks for it again.
	addr netip.AddrPort
	// open listens at an address, and returns what serves there until its
	// context ends.
	open  func(at netip.AddrPort) (netip.AddrPort, func(context.Context) error, error)
	stats func() rpcrdma.ServerStats
	// close releases what outlives a stop.
	close func() error

	// Of the serving now under way, guarded by Server.life:
	cancel context.CancelFunc
	done   chan struct{}
}

// ListenTCP serves at an address, port 0 choosing one, until Close.
func (s *Server) ListenTCP(addr string) (netip.AddrPort, error) {
	at, err := resolveAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	cfg := tcp.ServerConfig{MaxPayload: s.cfg.MaxIO, Concurrent: s.cfg.Workers, Log: s.cfg.Log}
	if t := s.cfg.TLS; t != nil {
		srv := &rpctls.Server{Files: rpctls.Files{CA: t.ClientCA, Cert: t.Cert, Key: t.Key}}
		if err := srv.Check(); err != nil {
			return netip.AddrPort{}, fmt.Errorf("nfsd: TLS: %w", err)
		}
		cfg.Upgrade = srv.Upgrade
	}
	return s.listen(&listener{network: "tcp", open: func(at netip.AddrPort) (netip.AddrPort, func(context.Context) error, error) {
		ln, err := net.Listen("tcp", at.String())
		if err != nil {
			return at, nil, err
		}
		return ln.Addr().(*net.TCPAddr).AddrPort(), func(ctx context.Context) error {
			return tcp.Serve(ctx, ln, s.Handler(), cfg)
		}, nil
	}}, at)
}

// backCalls is how many callbacks of version 4 there can be on a connection at once, unless
// rpcrdma.ServerConfig says otherwise.
const backCalls = 16

// ListenRDMA serves at an address of a device, which it borrows until Close.
// cfg.MaxPayload is the server's.
func (s *Server) ListenRDMA(dev verbs.Device, addr string, cfg rpcrdma.ServerConfig) (netip.AddrPort, error) {
	at, err := resolveAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	cfg.MaxPayload = s.cfg.MaxIO
	if cfg.Log == nil {
		cfg.Log = s.cfg.Log
	}
	if cfg.Backward == 0 && s.back != nil {
		cfg.Backward = backCalls
	}
	srv, err := rpcrdma.NewServer(dev, s.Handler(), cfg)
	if err != nil {
		return netip.AddrPort{}, err
	}
	l := &listener{network: "rdma", stats: srv.Stats, close: srv.Close}
	l.open = func(at netip.AddrPort) (netip.AddrPort, func(context.Context) error, error) {
		ln, err := dev.Listen(at, verbs.ListenOptions{Backlog: 64})
		if err != nil {
			return at, nil, err
		}
		return ln.Addr(), func(ctx context.Context) error {
			err := srv.Serve(ctx, ln)
			return errors.Join(err, ln.Close())
		}, nil
	}
	got, err := s.listen(l, at)
	if err != nil {
		return got, errors.Join(err, srv.Close())
	}
	return got, nil
}

func resolveAddr(addr string) (netip.AddrPort, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("nfsd: listen at %s: %w", addr, err)
	}
	ip, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		ip = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(ip.Unmap().WithZone(a.Zone), uint16(a.Port)), nil
}

var errClosed = errors.New("nfsd: server closed")

func (s *Server) listen(l *listener, at netip.AddrPort) (netip.AddrPort, error) {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.start(l, at); err != nil {
		return netip.AddrPort{}, fmt.Errorf("nfsd: listen at %s: %w", at, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	return l.addr, nil
}

// start opens l and serves there. s.life is held.
func (s *Server) start(l *listener, at netip.AddrPort) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	addr, serve, err := l.open(at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	if !l.addr.IsValid() {
		l.addr = addr
	}
	l.cancel, l.done = cancel, make(chan struct{})
	go s.runListener(ctx, l, serve)
	return nil
}

// reopenPause is between attempts to listen again.
const reopenPause = 100 * time.Millisecond

// runListener serves until its context ends. If the socket fails before, it
// opens another: a server that is up is not deaf.
func (s *Server) runListener(ctx context.Context, l *listener, serve func(context.Context) error) {
	defer close(l.done)
	for {
		err := serve(ctx)
		if ctx.Err() != nil || errors.Is(err, transport.ErrClosed) {
			return
		}
		s.cfg.Log.Warn("listening failed, trying again", "network", l.network, "at", l.addr, "err", err)
		for serve = nil; serve == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reopenPause):
			}
			if _, again, err := l.open(l.addr); err == nil {
				serve = again
			} else {
				s.cfg.Log.Debug("listening again", "network", l.network, "at", l.addr, "err", err)
			}
		}
	}
}

// halt ends the serving and waits for it.
func (l *listener) halt() {
	if l.cancel != nil {
		l.cancel()
		<-l.done
	}
}

// stop is halt for good.
func (l *listener) stop() error {
	l.halt()
	if l.close != nil {
		return l.close()
	}
	return nil
}

// relisten ends every connection and listens again at the same addresses.
func (s *Server) relisten() error {
	s.life.Lock()
	defer s.life.Unlock()
	for _, l := range s.all() {
		l.halt()
	}
	var errs []error
	for _, l := range s.all() {
		errs = append(errs, s.start(l, l.addr))
	}
	return errors.Join(errs...)
}

func (s *Server) all() []*listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listeners)
}

// Addrs is the addresses served on a network, "tcp" or "rdma".
func (s *Server) Addrs(network string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range s.all() {
		if l.network == network {
			all = append(all, l.addr)
		}
	}
	return all
}
