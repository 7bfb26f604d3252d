package session

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// registeredPort asks rpcbind where NFS over RDMA is, for servers that do not
// have it on its own port. It is 0 when rpcbind knows nothing else.
func registeredPort(ctx context.Context, cfg *Config, a netip.Addr) (uint16, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout())
	defer cancel()
	port, err := nfs3.RDMAPort(ctx, a, cfg.dialTCP)
	switch {
	case err != nil:
		return 0, fmt.Errorf("nor does rpcbind on %s say where it is: %w", a, err)
	case port == 0 || port == options.PortRDMA:
		return 0, fmt.Errorf("nor does rpcbind on %s know of another port with the netid %s (port= names one)", a, nfs3.RDMANetID(a))
	}
	return port, nil
}

// Exports lists what the server at an address exports.
func Exports(ctx context.Context, cfg Config, at netip.Addr) ([]nfs3.Export, error) {
	return nfs3.Exports(ctx, cfg.mountd(at))
}

// mountd is the configuration of what is asked of mountd and rpcbind at an
// address.
func (c *Config) mountd(at netip.Addr) nfs3.Config {
	return nfs3.Config{
		Host:        c.Source.Host,
		Addr:        at,
		Export:      c.Source.Export,
		Dial:        c.dialTCP,
		MachineName: machineName(),
		MountPort:   c.Options.MountPort,
		Cred:        OwnCred(),
		Log:         c.log(),
	}
}

// The patience with rpcbind and mountd.
const (
	mountdTimeout = 5 * time.Second
	mountdRetrans = 1
)

// dialTCP makes the Caller for rpcbind and mountd.
func (c *Config) dialTCP(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
	d, err := providers.TCPDialer(to, &c.Options)
	if err != nil {
		return nil, err
	}
	caller := reconnect.New(d, reconnect.Config{Server: to.String(), Timeo: mountdTimeout, Retrans: mountdRetrans, Soft: true, Account: c.account})
	if err := caller.Connect(ctx); err != nil {
		caller.Close()
		return nil, err
	}
	return caller, nil
}

// mountAddr is the address of whom to ask for the MOUNT service.
func (s *Session) mountAddr(ctx context.Context) (netip.Addr, error) {
	if s.cfg.Options.MountHost == "" {
		return s.addr.Addr(), nil
	}
	host := source.Source{Text: s.cfg.Options.MountHost, Host: s.cfg.Options.MountHost}
	found, err := host.Resolve(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("mounthost=%s: %w", host.Host, err)
	}
	return found[0], nil
}
