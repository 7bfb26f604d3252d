package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// What the daemon spends on caching. The kernel's page cache is the long-term
// one; these are for data under way.
const (
	poolBytes          = 128 << 20
	readAheadBytes     = 8 << 20
	kernelReadAheadKiB = 1024
)

// session is everything below the FUSE mount, owned by the daemon.
type session struct {
	how    string // "tcp", "rdma/iwarp"
	addr   netip.AddrPort
	route  *route
	caller *reconnect.Caller
	client nfsclient.Client
	opts   options
	pool   *bufpool.Pool
	cache  *cache.Cache
}

// connect reaches the server and mounts the export, over the first of its
// addresses and of the routes to it that answers. The error tells what was
// tried and why each failed.
func connect(ctx context.Context, m *mountArgs, log *slog.Logger) (*session, error) {
	addrs, err := m.src.resolve(ctx)
	if err != nil {
		return nil, err
	}
	machine := machineName()
	var failed, without []error
	for _, a := range addrs {
		s, none, err := connectAt(ctx, m, netip.AddrPortFrom(a, m.opts.nfsPort()), machine, log)
		without = append(without, none...)
		var away *unreachableError
		if err != nil && errors.As(err, &away) && m.opts.proto == "rdma" && m.opts.port == 0 {
			if port, why := registeredPort(ctx, m, a, machine); port != 0 {
				log.Info(fmt.Sprintf("rpcbind on %s says that NFS over RDMA is on port %d", a, port))
				s, _, err = connectAt(ctx, m, netip.AddrPortFrom(a, port), machine, log)
			} else {
				err = errors.Join(err, why)
			}
		}
		if s != nil {
			for _, err := range append(without, failed...) {
				log.Info(fmt.Sprintf("not taken: %v", err))
			}
			return s, nil
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	err = errors.Join(failed...)
	var away *unreachableError
	if err != nil && !errors.As(err, &away) {
		return nil, err // the server was reached: another way to it would not have helped
	}
	return nil, errors.Join(append(failed, without...)...)
}

// routes are routes found in the time that a mount has.
func (m *mountArgs) routes(ctx context.Context, addr netip.AddrPort, machine string, log *slog.Logger) (found [][]*route, without []error) {
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout())
	defer cancel()
	return routes(ctx, &m.opts, addr, machine, log)
}

// connectAt is connect for one address. without tells why there were not more
// ways to it; without any, there is neither a session nor an error.
func connectAt(ctx context.Context, m *mountArgs, addr netip.AddrPort, machine string, log *slog.Logger) (_ *session, without []error, _ error) {
	ways, without := m.routes(ctx, addr, machine, log)
	var failed []error
	for i, row := range ways {
		s, err := race(ctx, m, addr, row, log)
		if err == nil {
			err = s.mount(ctx, m, machine, log)
		}
		if err != nil {
			if s != nil {
				s.closeTransport()
			}
			failed = append(failed, err)
			continue
		}
		for _, row := range ways[i+1:] {
			for _, unused := range row {
				unused.close()
			}
		}
		return s, append(without, failed...), nil
	}
	return nil, without, errors.Join(failed...)
}

// unreachableError says that nothing answered at an address.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// registeredPort asks rpcbind where NFS over RDMA is, for servers that do not
// have it on its own port. It is 0 when rpcbind knows nothing else.
func registeredPort(ctx context.Context, m *mountArgs, a netip.Addr, machine string) (uint16, error) {
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout())
	defer cancel()
	port, err := nfs3.RDMAPort(ctx, a, func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
		return dialTCP(ctx, to, machine, m.opts.srcAddr)
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("nor does rpcbind on %s say where it is: %w", a, err)
	case port == 0 || port == portRDMA:
		return 0, fmt.Errorf("nor does rpcbind on %s know of another port with the netid %s (port= names one)", a, nfs3.RDMANetID(a))
	}
	return port, nil
}

// laggard is how much longer a route may take to answer than another took to be
// refused: the host is there, and who listens answers soon.
const laggard = 3 * time.Second

// race connects over all routes of a row at once. The first that answers is
// the session's; the others are closed.
func race(ctx context.Context, m *mountArgs, addr netip.AddrPort, row []*route, log *slog.Logger) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout())
	defer cancel()
	type outcome struct {
		s   *session
		err error
	}
	out := make(chan outcome, len(row))
	runConnect := func(s *session) { out <- outcome{s, s.connect(ctx, m)} }
	for _, r := range row {
		go runConnect(newSession(m, addr, r, log))
	}
	var won *session
	var failed []error
	for range row {
		o := <-out
		switch {
		case o.err == nil && won == nil:
			won = o.s
			cancel()
			continue
		case o.err != nil && won == nil:
			failed = append(failed, o.err)
			if errors.Is(o.err, syscall.ECONNREFUSED) {
				defer time.AfterFunc(laggard, cancel).Stop()
			}
		}
		o.s.closeTransport()
	}
	if won == nil {
		return nil, errors.Join(failed...)
	}
	return won, nil
}

// newSession is a session over a route, not yet connected.
func newSession(m *mountArgs, addr netip.AddrPort, r *route, log *slog.Logger) *session {
	return &session{how: r.how, addr: addr, route: r, opts: m.opts, caller: reconnect.New(r.dialer, reconnect.Config{
		Timeo:    m.opts.timeo,
		Retrans:  m.opts.retrans,
		Soft:     m.opts.soft,
		NConnect: m.opts.nconnect,
		Server:   m.src.host,
		Log:      log,
	})}
}

// connect connects over the session's route.
func (s *session) connect(ctx context.Context, m *mountArgs) error {
	if err := s.caller.Connect(ctx); err != nil {
		return &unreachableError{s.explainConnect(err)}
	}
	return nil
}

// mount mounts the export over the session's connection.
func (s *session) mount(ctx context.Context, m *mountArgs, machine string, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout())
	defer cancel()
	config := m.mountd(s.addr.Addr(), machine, log)
	config.Caller, config.RSize, config.WSize = s.caller, s.opts.rsize, s.opts.wsize
	c, err := nfs3.Mount(ctx, config)
	if err != nil {
		return err
	}
	s.client = c
	if v := s.caller.Stats().Terms.Version; s.opts.rdmaVers == "2" && v == 1 {
		log.Warn(fmt.Sprintf("%s does not have version 2 of RPC-over-RDMA, which rdmavers=2 asks for: version 1 is used (rdmavers=auto does not warn)", s.addr))
	}
	return nil
}

// machineName is this machine's in AUTH_SYS credentials.
func machineName() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// mountd is the configuration of what is asked of mountd and rpcbind at an
// address.
func (m *mountArgs) mountd(at netip.Addr, machine string, log *slog.Logger) nfs3.Config {
	return nfs3.Config{
		Host:   m.src.host,
		Addr:   at,
		Export: m.src.export,
		Dial: func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
			return dialTCP(ctx, to, machine, m.opts.srcAddr)
		},
		MachineName: machine,
		MountPort:   m.opts.mountPort,
		Cred:        ownCred(),
		Log:         log,
	}
}

// dialTCP makes the Caller for rpcbind and mountd.
func dialTCP(ctx context.Context, to netip.AddrPort, machine string, from netip.Addr) (transport.Caller, error) {
	d, err := tcpDialer(to, machine, from)
	if err != nil {
		return nil, err
	}
	c := reconnect.New(d, reconnect.Config{Server: to.String(), Timeo: 5 * time.Second, Retrans: 1, Soft: true})
	if err := c.Connect(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ownCred is the credential for the calls of the mount itself.
func ownCred() nfsclient.Cred {
	cr := nfsclient.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, err := os.Getgroups()
	if err != nil {
		return cr
	}
	for _, g := range groups {
		cr.GIDs = append(cr.GIDs, uint32(g))
	}
	return cr
}

// connectError is a failed connection, and what may help.
type connectError struct {
	what string
	err  error
	hint string
}

func (e *connectError) Error() string {
	if e.hint == "" {
		return fmt.Sprintf("%s: %v", e.what, e.err)
	}
	return fmt.Sprintf("%s: %v (%s)", e.what, e.err, e.hint)
}

func (e *connectError) Unwrap() error { return e.err }

// explainConnect says what a failed connection means and what may help.
func (s *session) explainConnect(err error) error {
	what := fmt.Sprintf("cannot connect to %s over %s", s.addr, s.how)
	var netErr net.Error
	hint := ""
	switch {
	case explained(err):
	case errors.Is(err, syscall.ECONNREFUSED) && s.opts.proto == "rdma":
		hint = "nothing listens there: does the server have NFS over RDMA enabled on that port? try proto=tcp"
	case errors.Is(err, syscall.EADDRNOTAVAIL) && s.opts.srcAddr.IsValid():
		hint = fmt.Sprintf("srcaddr=%s is no address of this host", s.opts.srcAddr)
	case errors.Is(err, syscall.EADDRINUSE):
		// The provider says what to do.
	case errors.Is(err, context.Canceled):
		hint = "no answer yet, and another way was refused"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "nothing listens there: is the NFS server running? is port= right?"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		hint = "there is no route: is the address right, and is the network up?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &netErr) && netErr.Timeout():
		hint = "no answer: is the host up, and does a firewall drop the port?"
	case s.opts.proto == "rdma":
		hint = "is an NFS/RDMA server on that port, and on a device of the same kind? try proto=tcp"
	}
	return &connectError{what, err, hint}
}

// startCache makes the buffers and the cache of a mounted session.
func (s *session) startCache(k *fs.Kernel, log *slog.Logger) error {
	pool, err := bufpool.New(bufpool.Config{Limit: s.route.memory.pool, Register: s.client.Register, Unregister: s.client.Unregister})
	if err != nil {
		return err
	}
	if err := pool.Reserve(); err != nil {
		return errors.Join(err, pool.Close())
	}
	info := s.client.Info()
	c, err := cache.New(s.client, pool, cache.Config{
		RSize: info.ReadMax, WSize: info.WriteMax,
		AcRegMin: s.opts.acRegMin, AcRegMax: s.opts.acRegMax,
		AcDirMin: s.opts.acDirMin, AcDirMax: s.opts.acDirMax,
		NoAC:      s.opts.noAC,
		ReadOnly:  s.opts.readOnly,
		ReadAhead: readAheadBytes,
		Kernel:    k,
		Log:       log,
	})
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	s.pool, s.cache = pool, c
	return nil
}

// close writes everything that is not safe yet, unmounts the export and
// disconnects. An error means that data was lost. A server that is away is
// waited for, as hard mounts do, until ctx ends.
func (s *session) close(ctx context.Context, log *slog.Logger) error {
	var lost error
	if s.cache != nil {
		lost = s.cache.Close(ctx)
	}
	if s.pool != nil {
		if err := s.pool.Close(); err != nil {
			log.Warn(fmt.Sprintf("closing the buffers: %v", err))
		}
	}
	if s.client != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := s.client.Close(ctx); err != nil {
			log.Info(fmt.Sprintf("unmounting at the server: %v", err))
		}
		s.caller = nil // the client's, closed with it
	}
	s.closeTransport()
	return lost
}

func (s *session) closeTransport() {
	if s.caller != nil {
		_ = s.caller.Close()
	}
	s.route.close()
}
