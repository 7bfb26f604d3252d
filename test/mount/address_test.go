package mount

import (
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestIPv6: "[address]:/export" over both protocols.
func TestIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	ln.Close()
	s := startServer(t, serverOptions{})
	dev := iwarp.Open(iwarp.Config{})
	t.Cleanup(func() {
		_ = s.Close()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.tcp, err = s.ListenTCP("[::1]:0"); err != nil {
		t.Fatal(err)
	}
	if s.rdma, err = s.ListenRDMA(dev, "[::1]:0", rpcrdma.ServerConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, proto := range []string{"rdma", "tcp"} {
		m := Mount(t, "[::1]:"+s.export, Options{Words: s.words(proto, "")})
		Exercise(t, m.Dir)
		m.Umount(t)
	}
}
