package nfs3

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
	"github.com/rdmafs/rdmafs/transport"
)

func TestRDMAPort(t *testing.T) {
	dump := func(vers uint32, reply wire.Message, err error) step {
		return step{prog: wire.RpcbindProgram, vers: vers, proc: wire.RpcbindDump, reply: reply, err: err}
	}
	list := func(es ...wire.Rpcb) *wire.RpcbList { return &wire.RpcbList{List: es} }
	entry := func(prog, vers uint32, netid, addr string) wire.Rpcb {
		return wire.Rpcb{Program: prog, Version: vers, NetID: netid, Addr: addr, Owner: "superuser"}
	}
	others := []wire.Rpcb{
		entry(100003, 3, "tcp", "0.0.0.0.8.1"), entry(100003, 4, "rdma", "0.0.0.0.9.9"),
		entry(100005, 3, "rdma", "0.0.0.0.9.8"), entry(100000, 4, "local", "/run/rpcbind.sock"),
	}
	rdma, rdma6 := entry(100003, 3, "rdma", "0.0.0.0.78.82"), entry(100003, 3, "rdma6", "::.78.83")
	mismatch := rpcErr(transport.ProgMismatch)
	for _, c := range []struct {
		name, addr string
		steps      []step
		want       uint16
		err        error
	}{
		{"rdma", "192.0.2.1", []step{dump(4, list(append(others, rdma6, rdma)...), nil)}, 20050, nil},
		{"mapped IPv4", "::ffff:192.0.2.1", []step{dump(4, list(rdma6, rdma), nil)}, 20050, nil},
		{"rdma6", "2001:db8::1", []step{dump(4, list(append(others, rdma, rdma6)...), nil)}, 20051, nil},
		{"version 3", "192.0.2.1", []step{dump(4, nil, mismatch), dump(3, list(rdma), nil)}, 20050, nil},
		{"not registered", "192.0.2.1", []step{dump(4, list(append(others, rdma6)...), nil)}, 0, nil},
		{"nothing registered", "192.0.2.1", []step{dump(4, list(), nil)}, 0, nil},
		{"version 2 only", "192.0.2.1", []step{dump(4, nil, mismatch), dump(3, nil, mismatch)}, 0, mismatch},
		{"away", "192.0.2.1", []step{dump(4, nil, refusedErr)}, 0, refusedErr},
		{"address of no port", "192.0.2.1", []step{dump(4, list(entry(100003, 3, "rdma", "0.0.0.0.1.256")), nil)}, 0, transport.ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, c.steps...)
			port, err := RDMAPort(t.Context(), netip.MustParseAddr(c.addr), func(_ context.Context, to netip.AddrPort) (transport.Caller, error) {
				if to.Port() != 111 || to.Addr().String() != c.addr {
					t.Errorf("asked at %v", to)
				}
				return f, nil
			})
			if port != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %d, %v; want %d, %v", port, err, c.want, c.err)
			}
		})
	}
}

func TestUniversalAddr(t *testing.T) {
	for at, want := range map[string]string{
		"192.0.2.1:20049": "192.0.2.1.78.81", "[::]:111": "::.0.111", "[fe80::1%lo]:65535": "fe80::1.255.255", "[::ffff:127.0.0.1]:256": "127.0.0.1.1.0",
	} {
		a := netip.MustParseAddrPort(at)
		got := rpcbind.UniversalAddr(a)
		if port, err := universalPort(got); got != want || port != a.Port() || err != nil {
			t.Errorf("%s: %q, back to %d, %v; want %q", at, got, port, err, want)
		}
	}
}
