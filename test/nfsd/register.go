package nfsd

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nfs4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
)

// Register makes what the server listens on known to an rpcbind (RFC 1833): NFS
// with the netid of each listener, among them rdma and rdma6 (RFC 5665), and
// MOUNT and NLM on those of TCP. at is the path of its socket, which is what Linux lets
// register, or its address. Registrations that are there already are replaced.
func (s *Server) Register(ctx context.Context, at string) error {
	return rpcbind.Do(ctx, at, func(b *rpcbind.Conn) error {
		for _, e := range s.registrations() {
			if _, err := b.Unset(e); err != nil {
				return err
			}
			ok, err := b.Set(e)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("nfsd: rpcbind at %s refuses to register program %d with netid %s at %s (is it another user's?)",
					at, e.Program, e.NetID, e.Addr)
			}
		}
		return nil
	})
}

// Unregister undoes Register.
func (s *Server) Unregister(ctx context.Context, at string) error {
	return rpcbind.Do(ctx, at, func(b *rpcbind.Conn) error {
		for _, e := range s.registrations() {
			if _, err := b.Unset(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// registrations lists what there is to register. A listener at no particular
// IPv6 address takes IPv4 as well.
func (s *Server) registrations() (all []wire.Rpcb) {
	owner := "superuser"
	if id := os.Geteuid(); id != 0 {
		owner = fmt.Sprint(id)
	}
	for _, network := range []string{"tcp", "rdma"} {
		for _, at := range s.Addrs(network) {
			places := []netip.AddrPort{at}
			if at.Addr() == netip.IPv6Unspecified() {
				places = append(places, netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()))
			}
			for _, p := range places {
				e := wire.Rpcb{Program: wire.NFSProgram, Version: wire.NFSVersion, NetID: network, Addr: rpcbind.UniversalAddr(p), Owner: owner}
				if !p.Addr().Unmap().Is4() {
					e.NetID += "6"
				}
				if s.cfg.Versions&(V41|V42) != 0 {
					e.Version = nfs4.Version
					all = append(all, e)
					e.Version = wire.NFSVersion
				}
				if s.cfg.Versions&V3 == 0 {
					continue
				}
				all = append(all, e)
				if network == "tcp" {
					e.Program, e.Version = wire.MountProgram, wire.MountVersion
					all = append(all, e)
					e.Program, e.Version = nlm.Program, nlm.Version
					all = append(all, e)
				}
			}
		}
	}
	return all
}
