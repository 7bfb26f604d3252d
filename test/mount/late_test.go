package mount

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestLateCallOfKilled: a process is killed while the server sits on its WRITE or
// its truncation. What another writes and syncs after that is not undone when
// the server goes on.
func TestLateCallOfKilled(t *testing.T) {
	for _, c := range []struct {
		name string
		proc uint32
		dd   string // of what is written over it
	}{
		{"write", wire.ProcWrite, "conv=notrunc,fsync"},
		{"truncation", wire.ProcSetAttr, "conv=fsync"},
	} {
		for _, proto := range []string{"rdma", "tcp"} {
			t.Run(c.name+", "+proto, func(t *testing.T) {
				came, release := make(chan struct{}), make(chan struct{})
				var first atomic.Bool
				s := startServer(t, serverOptions{faults: &nfsd.Faults{
					Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
						if e.Prog == nfsProgram && e.Proc == c.proc && first.CompareAndSwap(true, false) {
							close(came)
							select {
							case <-release:
							case <-ctx.Done():
							}
						}
						return nfsd.Proceed
					},
				}})
				if err := os.WriteFile(filepath.Join(s.export, "f"), []byte("as it was"), 0o644); err != nil {
					t.Fatal(err)
				}
				m := s.mount(t, proto, "")
				name := filepath.Join(m.Dir, "f")
				first.Store(true)
				dd := exec.Command("dd", "if=/dev/zero", "of="+name, "bs=3", "count=1", c.dd)
				if err := dd.Start(); err != nil {
					t.Fatal(err)
				}
				<-came
				if err := dd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := dd.Wait(); err == nil {
					t.Fatal("dd was not killed")
				}
				synced := make(chan error, 1)
				go func() {
					f, err := os.OpenFile(name, os.O_WRONLY, 0)
					if err == nil {
						_, err = f.WriteAt([]byte("as it is!"), 0)
					}
					if err == nil {
						err = f.Sync()
					}
					if cerr := f.Close(); err == nil {
						err = cerr
					}
					synced <- err
				}()
				// It waits for the server, or is done; then it must last.
				var err error
				done := false
				select {
				case err = <-synced:
					done = true
				case <-time.After(200 * time.Millisecond):
				}
				close(release)
				if !done {
					err = <-synced
				}
				if err != nil {
					t.Fatal(err)
				}
				m.Umount(t)
				if got, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(got) != "as it is!" {
					t.Errorf("the server has %q, %v", got, err)
				}
			})
		}
	}
}
