package mount

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestSoftServerGone: on a soft mount whose server has ended, with no process
// listening in its place, stat and open fail with EIO, or ETIMEDOUT with softerr,
// whatever the attempts to connect failed with.
func TestSoftServerGone(t *testing.T) {
	s := startServer(t, serverOptions{})
	if err := os.WriteFile(filepath.Join(s.export, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	var mounts []*Mounted
	want := map[string]error{}
	for _, c := range []struct {
		proto, soft string
		want        error
	}{{"rdma", "soft", syscall.EIO}, {"tcp", "soft", syscall.EIO}, {"tcp", "softerr", syscall.ETIMEDOUT}} {
		m := s.mount(t, c.proto, c.soft+",timeo=30,retrans=0,noac")
		want[m.Dir] = c.want
		if _, err := os.ReadFile(filepath.Join(m.Dir, "f")); err != nil {
			t.Fatal(err)
		}
		mounts = append(mounts, m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, m := range mounts {
		dir := m.Dir
		for what, try := range map[string]func() error{
			"stat": func() error { _, err := os.Stat(dir); return err },
			"open": func() error { _, err := os.Open(filepath.Join(dir, "f")); return err },
		} {
			all.Go(func() {
				if err := try(); !errors.Is(err, want[dir]) {
					t.Errorf("%s in %s: %v, want %v", what, dir, err, want[dir])
				}
			})
		}
	}
	all.Wait()
	for _, m := range mounts { // each waits a while for the server's mountd
		all.Go(func() { m.Umount(t) })
	}
	all.Wait()
}
