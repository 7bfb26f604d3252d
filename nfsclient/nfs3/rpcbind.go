package nfs3

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// call makes one call of a program other than NFS.
func call(ctx context.Context, c transport.Caller, prog, vers, proc uint32, cr transport.Cred, args, res wire.Message, replyMax int) error {
	return c.Call(ctx, &transport.Call{Prog: prog, Vers: vers, Proc: proc, Cred: cr,
		Args: args.Append, Result: parser(res), ReplyMax: replyMax})
}

// mountdPort asks rpcbind for mountd's TCP port.
func (cf *Config) mountdPort(ctx context.Context) (uint16, error) {
	port, err := Port(ctx, cf.Addr, wire.MountProgram, wire.MountVersion, cf.Dial)
	return cf.foundPort(port, err)
}

// Port asks rpcbind on a server for the TCP port of a program (RFC 1833); it is 0
// when rpcbind knows none. Version 2 is what everything has, but it knows IPv4 only.
func Port(ctx context.Context, server netip.Addr, prog, progVers uint32, dial func(context.Context, netip.AddrPort) (transport.Caller, error)) (port uint16, err error) {
	c, err := dial(ctx, netip.AddrPortFrom(server, wire.RpcbindPort))
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // what it was for has been done
	if server.Unmap().Is4() {
		port, err = getPort(ctx, c, prog, progVers)
		if err == nil || !hasNoVersion(err) {
			return port, err
		}
	}
	for _, vers := range []uint32{wire.RpcbindV4, wire.RpcbindV3} {
		port, err = getAddr(ctx, c, vers, server, prog, progVers)
		if err == nil || !hasNoVersion(err) {
			break
		}
	}
	return port, err
}

func (cf *Config) foundPort(port uint16, err error) (uint16, error) {
	switch {
	case err != nil:
		return 0, cf.rpcbindError(err)
	case port == 0:
		return 0, cf.fail(MountdMissing, "rpcbind on the server knows no MOUNT service of version 3 over TCP",
			"is the NFS server running there, with version 3 enabled? Otherwise give -o mountport=", nil)
	}
	return port, nil
}

func (cf *Config) rpcbindError(err error) error {
	at := netip.AddrPortFrom(cf.Addr, wire.RpcbindPort)
	why := fmt.Sprintf("rpcbind on %s does not answer", at)
	if errors.Is(err, syscall.ECONNREFUSED) {
		why = fmt.Sprintf("rpcbind on %s refused the connection", at)
	}
	return cf.fail(RpcbindUnreachable, why, "give -o mountport= if mountd's port is known; a server of NFS version 4 alone needs vers=4", err)
}

// hasNoVersion: the server has the program, but not in the version asked for.
func hasNoVersion(err error) bool {
	var r *transport.RPCError
	return errors.As(err, &r) && !r.Denied &&
		(transport.AcceptStat(r.Code) == transport.ProgMismatch || transport.AcceptStat(r.Code) == transport.ProcUnavail)
}

func getPort(ctx context.Context, c transport.Caller, prog, progVers uint32) (uint16, error) {
	args := wire.GetPortArgs{Program: prog, Version: progVers, Proto: wire.ProtoTCP}
	var res wire.GetPortRes
	err := call(ctx, c, wire.RpcbindProgram, wire.PortmapVersion, wire.PortmapGetPort, nil, &args, &res, wire.GetPortReplyMax)
	if err == nil && res.Port > 65535 {
		err = fmt.Errorf("%w: port %d", transport.ErrProtocol, res.Port)
	}
	return uint16(res.Port), err
}

func getAddr(ctx context.Context, c transport.Caller, vers uint32, at netip.Addr, prog, progVers uint32) (uint16, error) {
	args := wire.Rpcb{Program: prog, Version: progVers, NetID: "tcp"}
	if at.Unmap().Is6() {
		args.NetID = "tcp6"
	}
	var res wire.GetAddrRes
	err := call(ctx, c, wire.RpcbindProgram, vers, wire.RpcbindGetAddr, nil, &args, &res, wire.GetAddrReplyMax)
	if err != nil || res.Addr == "" {
		return 0, err
	}
	return universalPort(res.Addr)
}

// universalPort is the port in a universal address (RFC 5665 section 5.2.3.3): its last
// two numbers, each a byte. The address before them is the server's view of
// itself and may be no use to us.
func universalPort(addr string) (uint16, error) {
	parts := strings.Split(addr, ".")
	if n := len(parts); n >= 3 {
		hi, errHi := strconv.ParseUint(parts[n-2], 10, 8)
		lo, errLo := strconv.ParseUint(parts[n-1], 10, 8)
		if errHi == nil && errLo == nil {
			return uint16(hi<<8 | lo), nil
		}
	}
	return 0, fmt.Errorf("%w: universal address %q", transport.ErrProtocol, addr)
}

// RDMANetID is the network id of NFS over RDMA by an address of that family (RFC
// 5666 section 12).
func RDMANetID(a netip.Addr) string {
	if a.Unmap().Is4() {
		return "rdma"
	}
	return "rdma6"
}

// RDMAPort asks rpcbind on a server for the port of NFSv3 over RDMA; it is 0 when
// rpcbind knows none. GETADDR is of no use, because it answers for the transport
// on which it is called (RFC 1833 section 2.2.1): the list of everything is.
func RDMAPort(ctx context.Context, server netip.Addr, dial func(context.Context, netip.AddrPort) (transport.Caller, error)) (port uint16, err error) {
	c, err := dial(ctx, netip.AddrPortFrom(server, wire.RpcbindPort))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var res wire.RpcbList
	for _, vers := range []uint32{wire.RpcbindV4, wire.RpcbindV3} {
		err = call(ctx, c, wire.RpcbindProgram, vers, wire.RpcbindDump, nil, &wire.Void{}, &res, wire.RpcbindDumpReplyMax)
		if err == nil || !hasNoVersion(err) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	for _, e := range res.List {
		if e.Program == wire.NFSProgram && e.Version == wire.NFSVersion && e.NetID == RDMANetID(server) {
			return universalPort(e.Addr)
		}
	}
	return 0, nil
}
