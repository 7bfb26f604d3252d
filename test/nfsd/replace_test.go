package nfsd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestReplacedExport: when an export's directory was removed or moved, and another has its
// name, clients mount that one; handles of the one before are not its.
func TestReplacedExport(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, x Export) {
				x.Dir = filepath.Join(t.TempDir(), "export")
				if err := os.Mkdir(x.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				c := start(t, x)
				old := c.mustCreate(c.root, "f")
				if again := c.mnt(c.s.exports[0].Path); again != c.root {
					t.Error("mounting again gives another root")
				}
				if err := replace(x.Dir); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(x.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				before := c.root
				c.root = c.mnt(c.s.exports[0].Path)
				if c.root == before {
					t.Fatal("the new root has the handle of the old one")
				}
				c.mustCreate(c.root, "g")
				if _, err := os.Stat(filepath.Join(x.Dir, "g")); err != nil {
					t.Error(err)
				}
				for what, h := range map[string]nfsclient.Handle{"file": old, "root": before} {
					if _, st := c.getattr(h); st != nfsclient.ErrStale && st != nfsclient.ErrBadHandle {
						t.Errorf("old %s: %v", what, st)
					}
				}
				if err := c.s.Crash(); err != nil {
					t.Error(err)
				}
				if _, st := c.getattr(c.root); st != nfsclient.OK {
					t.Errorf("new root after a restart: %v", st)
				}
			})
		})
	}
}
