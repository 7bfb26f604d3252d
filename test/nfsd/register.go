package nfsd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Register makes what the server listens on known to an rpcbind (RFC 1833): NFS
// with the netid of each listener, among them rdma and rdma6 (RFC 5665), and
// MOUNT and NLM on those of TCP. at is the path of its socket, which is what Linux lets
// register, or its address. Registrations that are there already are replaced.
func (s *Server) Register(ctx context.Context, at string) error {
	return withRpcbind(ctx, at, func(b *rpcbind) error {
		for _, e := range s.registrations() {
			if _, err := b.call(wire.RpcbindUnset, e); err != nil {
				return err
			}
			ok, err := b.call(wire.RpcbindSet, e)
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
	return withRpcbind(ctx, at, func(b *rpcbind) error {
		for _, e := range s.registrations() {
			if _, err := b.call(wire.RpcbindUnset, e); err != nil {
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
				e := wire.Rpcb{Program: wire.NFSProgram, Version: wire.NFSVersion, NetID: network, Addr: nfs3.UniversalAddr(p), Owner: owner}
				if !p.Addr().Unmap().Is4() {
					e.NetID += "6"
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

// rpcbind is a connection to one, with record marking (RFC 5531 section 11).
type rpcbind struct {
	conn net.Conn
	xid  uint32
}

func withRpcbind(ctx context.Context, at string, f func(*rpcbind) error) error {
	network := "tcp"
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, at)
	if err != nil {
		return fmt.Errorf("nfsd: rpcbind: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = f(&rpcbind{conn: conn})
	if stop() {
		return errors.Join(err, conn.Close())
	}
	return errors.Join(ctx.Err(), err)
}

// maxRpcbindReply is more than a boolean needs.
const maxRpcbindReply = 1024

// call makes a call whose only result is whether it did what it should.
func (b *rpcbind) call(proc uint32, e wire.Rpcb) (bool, error) {
	b.xid++
	var res wire.SetRes
	c := &transport.Call{Prog: wire.RpcbindProgram, Vers: wire.RpcbindV4, Proc: proc, Args: e.Append,
		Result: func(r *xdr.Reader) error {
			res.Parse(r)
			return r.End()
		}}
	var w xdr.Writer
	const last = 1 << 31 // the only fragment
	w.Uint32(0)
	oncrpc.AppendCall(&w, b.xid, c)
	w.SetUint32(0, last|uint32(w.Len()-4))
	if _, err := b.conn.Write(w.Bytes()); err != nil {
		return false, fmt.Errorf("nfsd: rpcbind: %w", err)
	}
	var mark [4]byte
	if _, err := io.ReadFull(b.conn, mark[:]); err != nil {
		return false, fmt.Errorf("nfsd: rpcbind: %w", err)
	}
	n := binary.BigEndian.Uint32(mark[:])
	if n&last == 0 || n&^last > maxRpcbindReply {
		return false, fmt.Errorf("nfsd: rpcbind: %w: record mark %#x", transport.ErrProtocol, n)
	}
	reply := make([]byte, n&^last)
	if _, err := io.ReadFull(b.conn, reply); err != nil {
		return false, fmt.Errorf("nfsd: rpcbind: %w", err)
	}
	var r xdr.Reader
	r.Reset(reply, nil)
	if err := oncrpc.DecodeReply(&r, b.xid, c); err != nil {
		return false, fmt.Errorf("nfsd: rpcbind: %w", err)
	}
	return res.OK, nil
}
