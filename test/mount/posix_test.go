package mount

import (
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/test/posix"
)

// ways are the ways of a call that the whole suite runs over.
var ways = []struct {
	name, proto, words string
	server             serverOptions
}{
	{name: "iwarp", proto: "rdma"},
	{name: "iwarp-crc", proto: "rdma", words: "crc"},
	{name: "iwarp-inline1024", proto: "rdma", words: "inline=1024"},
	{name: "iwarp-noddp", proto: "rdma", words: "noddp"},
	{name: "iwarp-nconnect", proto: "rdma", words: "nconnect=4"},
	{name: "iwarp-small", proto: "rdma", words: "rsize=4096,wsize=8192"},
	{name: "iwarp-noac", proto: "rdma", words: "noac"},
	{name: "iwarp-version2", proto: "rdma", words: "rdmavers=2"},
	{name: "roce", proto: "rdma", server: serverOptions{roce: true}},
	{name: "roce-inline1024", proto: "rdma", words: "inline=1024", server: serverOptions{roce: true}},
	{name: "roce-noddp", proto: "rdma", words: "noddp", server: serverOptions{roce: true}},
	{name: "roce-nconnect", proto: "rdma", words: "nconnect=4", server: serverOptions{roce: true}},
	{name: "tcp", proto: "tcp"},
	{name: "ring", proto: "rdma", words: "fuse=ring"},
}

func TestPosix(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t, w.server)
			m := s.mount(t, w.proto, w.words)
			posix.Run(t, m.Dir)
			st := m.Stats(t)
			if st.BadReplies > 0 || st.BadXIDs > 0 || st.Connects != uint64(max(1, connections(w.words))) {
				t.Errorf("not a clean run: %+v", st)
			}
			if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

func connections(words string) int {
	if words == "nconnect=4" {
		return 4
	}
	return 1
}

// TestPlanRows: over the mounts of this test every way of a call is taken.
func TestPlanRows(t *testing.T) {
	s := startServer(t, serverOptions{})
	run := func(words string) (r planRows) {
		m := s.mount(t, "rdma", words)
		Exercise(t, m.Dir)
		st := m.Stats(t)
		m.Umount(t)
		return planRows{st.InlineCalls, st.ReadChunks, st.PositionZero, st.WriteChunks, st.ReplyChunks, st.LongReplies}
	}
	for _, inline := range []string{"inline=1024", "inline=4096"} {
		t.Run(inline, func(t *testing.T) {
			if r := run(inline); r.inline == 0 || r.read == 0 || r.zero != 0 || r.write == 0 || r.reply == 0 || r.long == 0 {
				t.Errorf("with direct placement: %+v", r)
			}
			if r := run(inline + ",noddp"); r.inline == 0 || r.read != 0 || r.zero == 0 || r.write != 0 || r.reply == 0 || r.long == 0 {
				t.Errorf("without: %+v", r)
			}
		})
	}
}

type planRows struct{ inline, read, zero, write, reply, long uint64 }
