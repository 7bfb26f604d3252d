//go:build knfsd

package interop

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// TestExportedAnewOnLinuxServer: after the Linux server has exported the same directory with
// another fsid, a mount finds it by MOUNT, and files that were open are stale.
func TestExportedAnewOnLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	guest(t, g, "chmod 1777 /export && mkdir -p /export/a/b && echo content > /export/a/b/f")
	for _, c := range []struct{ proto, fsid string }{{"rdma", "77"}, {"tcp", "78"}} {
		t.Run(c.proto, func(t *testing.T) {
			m := mount.Mount(t, "127.0.0.1:/export", mount.Options{Words: hostWords(g)(c.proto) + ",actimeo=0"})
			endWithGuest(t, g, m)
			path := filepath.Join(m.Dir, "a", "b", "f")
			open, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			guest(t, g, "exportfs -u '*:/export' && exportfs -o rw,sync,insecure,no_root_squash,no_subtree_check,fsid="+c.fsid+" '*:/export' && exportfs -f")
			if b, err := os.ReadFile(path); err != nil || string(b) != "content\n" {
				t.Errorf("by its path: %q, %v", b, err)
			}
			if _, err := open.Stat(); !errors.Is(err, syscall.ESTALE) {
				t.Errorf("fstat of what was open: %v", err)
			}
			if err := os.WriteFile(filepath.Join(m.Dir, "a", "new"), []byte("x"), 0o644); err != nil {
				t.Error(err)
			}
			guest(t, g, "grep -qx x /export/a/new && rm /export/a/new")
		})
	}
}
