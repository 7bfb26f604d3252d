package mount

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// TestSmallWritesTravelInline: 4 KiB written with O_DIRECT are in the call's Send
// where both ends have 8 KiB for it, and need a read chunk where the server has 4.
func TestSmallWritesTravelInline(t *testing.T) {
	const writes = 8
	for _, c := range []struct {
		name   string
		server int
		chunks uint64
	}{{"8192", 8192, 0}, {"4096", 4096, writes}} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{rdma: rpcrdma.ServerConfig{InlineIn: c.server, InlineOut: c.server}})
			m := s.mount(t, "rdma", "")
			f, err := os.OpenFile(filepath.Join(m.Dir, "f"), os.O_CREATE|os.O_WRONLY|unix.O_DIRECT, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Munmap(b)
			before := m.Stats(t)
			for i := range writes {
				if _, err := f.WriteAt(b, int64(i)*4096); err != nil {
					t.Fatal(err)
				}
			}
			if got := m.Stats(t).ReadChunks - before.ReadChunks; got != c.chunks {
				t.Errorf("%d writes made %d calls with a read chunk, want %d", writes, got, c.chunks)
			}
		})
	}
}
