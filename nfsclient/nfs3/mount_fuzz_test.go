package nfs3

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// scriptedCaller answers each call with the next of some replies, whatever is
// asked, and with an empty reply when none is left.
type scriptedCaller struct{ replies [][]byte }

func (s *scriptedCaller) Call(_ context.Context, c *transport.Call) error {
	var b []byte
	if len(s.replies) > 0 {
		b, s.replies = s.replies[0], s.replies[1:]
	}
	if c.ReplyMax < 0 || c.ReplyMax > 1<<20 {
		return errors.New("a reply without a bound")
	}
	b = b[:min(len(b), c.ReplyMax)&^3]
	var r xdr.Reader
	r.Reset(b, c.Recv)
	return c.Result(&r)
}

func (*scriptedCaller) Register(*mem.Arena) error   { return nil }
func (*scriptedCaller) Unregister(*mem.Arena) error { return nil }
func (*scriptedCaller) Limits() transport.Limits    { return transport.Limits{} }
func (*scriptedCaller) Stats() transport.Stats      { return transport.Stats{} }
func (*scriptedCaller) Close() error                { return nil }

// FuzzMountd: whatever rpcbind and mountd answer, mounting and listing exports
// return, with a result within its bounds or an error.
func FuzzMountd(f *testing.F) {
	encode := func(m wire.Message) []byte {
		var w xdr.Writer
		m.Append(&w)
		return w.Bytes()
	}
	f.Add(encode(&wire.GetPortRes{Port: 20048}), encode(&wire.MntRes{Handle: "root", Flavors: []uint32{wire.AuthSys}}), false)
	f.Add(encode(&wire.GetAddrRes{Addr: "::.78.80"}), encode(&wire.MntRes{Handle: "root", Flavors: []uint32{6, 390003}}), true)
	f.Add(encode(&wire.GetPortRes{Port: 1 << 31}), encode(&wire.ExportRes{Exports: []wire.ExportEntry{{Path: "/x", Groups: []string{"*", "\x1b[2J"}}}}), false)
	f.Add(encode(&wire.RpcbList{List: []wire.Rpcb{{Program: wire.NFSProgram, Version: 3, NetID: "rdma", Addr: "0.0.0.0.78.81"}}}), []byte{0, 0, 0, 13}, true)
	f.Add([]byte{255, 255, 255, 255}, []byte{0, 0, 0, 0, 0, 0, 0, 64}, false)
	f.Fuzz(func(t *testing.T, rpcbind, mountd []byte, six bool) {
		addr := netip.MustParseAddr("192.0.2.1")
		if six {
			addr = netip.MustParseAddr("2001:db8::1")
		}
		dial := func(_ context.Context, to netip.AddrPort) (transport.Caller, error) {
			if to.Port() == wire.RpcbindPort {
				return &scriptedCaller{replies: [][]byte{rpcbind, rpcbind}}, nil
			}
			return &scriptedCaller{replies: [][]byte{mountd}}, nil
		}
		cf := Config{Host: "server", Addr: addr, Export: "/export", Dial: dial}
		if found, err := Exports(t.Context(), cf); err == nil {
			for _, e := range found {
				if e.Path != printable(e.Path) {
					t.Errorf("an export that a terminal would obey: %q", e.Path)
				}
			}
		}
		cf.Caller = &scriptedCaller{}
		if c, err := Mount(t.Context(), cf); err == nil {
			t.Errorf("mounted without FSINFO: %+v", c.Info())
		}
		if _, err := RDMAPort(t.Context(), addr, dial); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
