package mount

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/posix"
)

// TestCutOverStores: what was stored through a mapping before open(O_TRUNC) is
// cut, even if the kernel writes that page back while the server cuts.
func TestCutOverStores(t *testing.T) {
	came, release := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	s := startServer(t, serverOptions{faults: &nfsd.Faults{
		Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && e.Proc == wire.ProcSetAttr && armed.CompareAndSwap(true, false) {
				close(came)
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nfsd.Proceed
		},
	}})
	if err := os.WriteFile(filepath.Join(s.export, "f"), bytes.Repeat([]byte("old "), 1024), 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.mount(t, "rdma", "").Dir, "f")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := posix.Store(m, []byte("stored")); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	var cut sync.WaitGroup
	cut.Go(func() {
		g, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	<-came
	if err := unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		t.Error(err)
	}
	close(release)
	cut.Wait()
	if st, err := f.Stat(); err != nil || st.Size() != 0 {
		t.Errorf("%d bytes here, %v", st.Size(), err)
	}
	if err := errors.Join(unix.Munmap(m), f.Close()); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || len(got) != 0 {
		t.Errorf("%d bytes on the server, %q…; %v", len(got), got[:min(len(got), 8)], err)
	}
}
