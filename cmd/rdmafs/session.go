package main

import (
	"context"
	"errors"
	"fmt"
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
	caller transport.Caller
	client nfsclient.Client
	opts   options
	pool   *bufpool.Pool
	cache  *cache.Cache
}

// connect reaches the server and mounts the export, over the first of its
// addresses and of the routes to it that answers. The error tells what was
// tried and why each failed.
func connect(ctx context.Context, m *mountArgs, logf func(string, ...any)) (*session, error) {
	addrs, err := m.src.resolve(ctx)
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = "localhost"
	}
	var failed []error
	for _, a := range addrs {
		s, err := connectAt(ctx, m, netip.AddrPortFrom(a, m.opts.nfsPort()), machine, logf)
		var away *unreachableError
		if err != nil && errors.As(err, &away) && m.opts.proto == "rdma" && m.opts.port == 0 {
			if port, why := registeredPort(ctx, m, a, machine); port != 0 {
				logf("rpcbind on %s says that NFS over RDMA is on port %d", a, port)
				s, err = connectAt(ctx, m, netip.AddrPortFrom(a, port), machine, logf)
			} else {
				err = errors.Join(err, why)
			}
		}
		if err == nil {
			return s, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// connectAt is connect for one address.
func connectAt(ctx context.Context, m *mountArgs, addr netip.AddrPort, machine string, logf func(string, ...any)) (*session, error) {
	ways, err := routes(&m.opts, addr, machine, logf)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i, r := range ways {
		s := &session{how: r.how, addr: addr, route: r, opts: m.opts}
		if err := s.mount(ctx, m, machine, logf); err != nil {
			s.closeTransport()
			failed = append(failed, err)
			continue
		}
		for _, unused := range ways[i+1:] {
			unused.close()
		}
		return s, nil
	}
	return nil, errors.Join(failed...)
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
		return dialTCP(ctx, to, machine)
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("nor does rpcbind on %s say where it is: %w", a, err)
	case port == 0 || port == portRDMA:
		return 0, fmt.Errorf("nor does rpcbind on %s know of another port with the netid %s (port= names one)", a, nfs3.RDMANetID(a))
	}
	return port, nil
}

// mount connects over the session's route and mounts the export.
func (s *session) mount(ctx context.Context, m *mountArgs, machine string, logf func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout())
	defer cancel()
	caller := reconnect.New(s.route.dialer, reconnect.Config{
		Timeo:    s.opts.timeo,
		Retrans:  s.opts.retrans,
		Soft:     s.opts.soft,
		NConnect: s.opts.nconnect,
		Server:   m.src.host,
		Logf:     logf,
	})
	s.caller = caller
	if err := caller.Connect(ctx); err != nil {
		return &unreachableError{s.explainConnect(err)}
	}
	c, err := nfs3.Mount(ctx, nfs3.Config{
		Host:   m.src.host,
		Addr:   s.addr.Addr(),
		Export: m.src.export,
		Caller: caller,
		Dial: func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
			return dialTCP(ctx, to, machine)
		},
		MountPort: s.opts.mountPort,
		RSize:     s.opts.rsize,
		WSize:     s.opts.wsize,
		Cred:      ownCred(),
		Logf:      logf,
	})
	if err != nil {
		return err
	}
	s.client = c
	if v := caller.Stats().Terms.Version; s.opts.rdmaVers == "2" && v == 1 {
		logf("%s does not have version 2 of RPC-over-RDMA, which rdmavers=2 asks for: version 1 is used (rdmavers=auto does not warn)", s.addr)
	}
	return nil
}

// dialTCP makes the Caller for rpcbind and mountd.
func dialTCP(ctx context.Context, to netip.AddrPort, machine string) (transport.Caller, error) {
	d, err := tcpDialer(to, machine)
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
	cr := nfsclient.Cred{Sys: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, err := os.Getgroups()
	if err != nil {
		return cr
	}
	for _, g := range groups {
		cr.GIDs = append(cr.GIDs, uint32(g))
	}
	return cr
}

// explainConnect says what a failed connection means and what may help.
func (s *session) explainConnect(err error) error {
	what := fmt.Sprintf("cannot connect to %s over %s", s.addr, s.how)
	var netErr net.Error
	hint := ""
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && s.opts.proto == "rdma":
		hint = "nothing listens there: does the server have NFS over RDMA enabled on that port? try proto=tcp"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "nothing listens there: is the NFS server running? is port= right?"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		hint = "there is no route: is the address right, and is the network up?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &netErr) && netErr.Timeout():
		hint = "no answer: is the host up, and does a firewall drop the port?"
	case s.opts.proto == "rdma":
		hint = "is an iWARP NFS/RDMA server on that port? try proto=tcp"
	}
	if hint == "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w (%s)", what, err, hint)
}

// startCache makes the buffers and the cache of a mounted session.
func (s *session) startCache(k *fs.Kernel, logf func(string, ...any)) error {
	pool, err := bufpool.New(bufpool.Config{Limit: poolBytes, Register: s.client.Register, Unregister: s.client.Unregister})
	if err != nil {
		return err
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
		Logf:      logf,
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
func (s *session) close(ctx context.Context, logf func(string, ...any)) error {
	var lost error
	if s.cache != nil {
		lost = s.cache.Close(ctx)
	}
	if s.pool != nil {
		if err := s.pool.Close(); err != nil {
			logf("closing the buffers: %v", err)
		}
	}
	if s.client != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := s.client.Close(ctx); err != nil {
			logf("unmounting at the server: %v", err)
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
