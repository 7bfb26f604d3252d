package nfsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestRegister registers with an rpcbind, finds the port of NFS over RDMA there
// as a client does, and unregisters.
func TestRegister(t *testing.T) {
	b := rpcbindtest.Start(t, "127.0.0.1:0")
	s, err := New(Config{Exports: []Export{{Dir: t.TempDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	dev := iwarp.Open(iwarp.Config{})
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	overTCP, err := s.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overRDMA, err := s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it replaces what is there
		if err := s.Register(t.Context(), b.Addr); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range b.List() {
		got = append(got, fmt.Sprint(e.Program, e.Version, e.NetID, " ", e.Addr))
	}
	at := func(a netip.AddrPort) string { return fmt.Sprintf("127.0.0.1.%d.%d", a.Port()>>8, a.Port()&255) }
	want := []string{"100003 3tcp " + at(overTCP), "100005 3tcp " + at(overTCP), "100021 4tcp " + at(overTCP), "100003 3rdma " + at(overRDMA)}
	if !slices.Equal(got, want) {
		t.Errorf("registered %q, want %q", got, want)
	}
	dial := func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
		if to != netip.MustParseAddrPort("127.0.0.1:111") {
			t.Errorf("asked at %v", to)
		}
		d, err := tcp.NewDialer(tcp.Config{Addr: netip.MustParseAddrPort(b.Addr)})
		if err != nil {
			return nil, err
		}
		c := reconnect.New(d, reconnect.Config{Soft: true})
		return c, c.Connect(ctx)
	}
	if port, err := nfs3.RDMAPort(t.Context(), netip.MustParseAddr("127.0.0.1"), dial); err != nil || port != overRDMA.Port() {
		t.Errorf("port %d, %v; want %d", port, err, overRDMA.Port())
	}
	if err := s.Unregister(t.Context(), b.Addr); err != nil || len(b.List()) != 0 {
		t.Errorf("left registered: %v, %v", b.List(), err)
	}
	if port, err := nfs3.RDMAPort(t.Context(), netip.MustParseAddr("127.0.0.1"), dial); err != nil || port != 0 {
		t.Errorf("port %d of nothing, %v", port, err)
	}
	b.Refuse()
	if err := s.Register(t.Context(), b.Addr); err == nil {
		t.Error("a refusal went unnoticed")
	}
}

// TestRegistrations has listeners of both families, and of neither.
func TestRegistrations(t *testing.T) {
	s := &Server{cfg: Config{Versions: V3}}
	for network, addrs := range map[string][]string{"rdma": {"[::1]:20049", "192.0.2.1:4242", "[::]:20049"}} {
		for _, a := range addrs {
			s.listeners = append(s.listeners, &listener{network: network, addr: netip.MustParseAddrPort(a)})
		}
	}
	var got []string
	for _, e := range s.registrations() {
		got = append(got, e.NetID+" "+e.Addr)
	}
	want := []string{"rdma6 ::1.78.81", "rdma 192.0.2.1.16.146", "rdma6 ::.78.81", "rdma 0.0.0.0.78.81"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.listeners = s.listeners[:1]
	for served, want := range map[Versions][]uint32{V3: {3}, V42: {4}, V3 | V41: {4, 3}} {
		s.cfg.Versions = served
		var vers []uint32
		for _, e := range s.registrations() {
			vers = append(vers, e.Version)
		}
		if !slices.Equal(vers, want) {
			t.Errorf("%b: versions %v registered, want %v", served, vers, want)
		}
	}
}

// TestRegisterWithNonsense has something else answer.
func TestRegisterWithNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "half a mark": "\x80\x00", "a huge record": "\xff\xff\xff\xff", "many fragments": "\x00\x00\x00\x04abcd",
		"cut short": "\x80\x00\x00\x20abcd", "no reply": "\x80\x00\x00\x04abcd",
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			done := make(chan struct{})
			runServe := func() {
				defer close(done)
				c, err := ln.Accept()
				if err != nil {
					return
				}
				var b [512]byte
				_, _ = c.Read(b[:])
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
			go runServe()
			s := &Server{cfg: Config{Versions: V3}, listeners: []*listener{{network: "rdma", addr: netip.MustParseAddrPort("[::1]:1")}}}
			if err := s.Register(t.Context(), ln.Addr().String()); err == nil {
				t.Error("accepted")
			}
			<-done
		})
	}
}
