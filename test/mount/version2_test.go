package mount

import (
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// TestVersion2 mounts with rdmavers= over servers of one version and of both: a
// tree goes in and comes back, in the version that both sides have.
func TestVersion2(t *testing.T) {
	only := func(v uint32) rpcrdma.ServerConfig {
		return rpcrdma.ServerConfig{Versions: rpcrdma.Versions{Low: v, High: v}}
	}
	large := rpcrdma.ServerConfig{InlineIn: 64 << 10, InlineOut: 64 << 10}
	v1 := transport.Terms{Version: 1, InlineSend: 4096, InlineRecv: 4096}
	v2 := transport.Terms{Version: 2, InlineSend: 4096, InlineRecv: 4096, ReceiveSize: 4096, PeerReceiveSize: 4096,
		Backward: "none", PeerBackward: "none"}
	v2large := v2
	v2large.InlineSend, v2large.InlineRecv, v2large.ReceiveSize, v2large.PeerReceiveSize = 64<<10, 64<<10, 64<<10, 64<<10
	for _, c := range []struct {
		name, words string
		server      rpcrdma.ServerConfig
		want        transport.Terms
	}{
		{"both have 2", "rdmavers=2", rpcrdma.ServerConfig{}, v2},
		{"both have 2, large", "rdmavers=2,inline=65536", large, v2large},
		{"server has only 2", "rdmavers=auto", only(2), v2},
		{"server has only 1", "rdmavers=2", only(1), v1},
		{"server has only 1, auto", "rdmavers=auto,nconnect=3", only(1), v1},
		{"default", "", rpcrdma.ServerConfig{}, v1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{rdma: c.server})
			m, _ := s.copyTree(t, c.words)
			st := m.Stats(t)
			if st.Terms != c.want || st.BadReplies+st.BadXIDs+st.Resends != 0 {
				t.Errorf("terms %+v, want %+v; %+v", st.Terms, c.want, st)
			}
		})
	}
}
