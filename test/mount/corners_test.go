package mount

import (
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// TestCorners mounts with the options of RFC 5666 that nothing needs today: a
// tree goes in and comes back, by the calls that the option stands for.
func TestCorners(t *testing.T) {
	for _, c := range []struct {
		name, words string
		server      rpcrdma.ServerConfig
		used        func(s transport.Stats) uint64
	}{
		{"readread", "readread", rpcrdma.ServerConfig{ReadReplies: true}, func(s transport.Stats) uint64 { return s.ReadReplies }},
		{"readread with little inline", "readread,inline=1024", rpcrdma.ServerConfig{ReadReplies: true, Credits: 4},
			func(s transport.Stats) uint64 { return s.ReadReplies }},
		{"msgp", "msgp=512:512", rpcrdma.ServerConfig{}, func(s transport.Stats) uint64 { return s.PaddedCalls }},
		{"ccp", "ccp,inline=16384", rpcrdma.ServerConfig{InlineIn: 16384, InlineOut: 16384}, func(s transport.Stats) uint64 { return s.InlineCalls }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{rdma: c.server})
			m, from := s.copyTree(t, c.words)
			CopyTree(t, filepath.Join(from, "internal"), filepath.Join(m.Dir, "again"), nil)
			st := m.Stats(t)
			if c.used(st) == 0 || st.BadReplies+st.BadXIDs+st.Resends != 0 {
				t.Errorf("statistics %+v", st)
			}
		})
	}
}
