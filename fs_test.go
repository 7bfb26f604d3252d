package rdmafs

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// tree puts files and links into the server's directory.
func (v *server) tree(t testing.TB) (names []string) {
	t.Helper()
	for _, d := range []string{"d", "d/e", "empty"} {
		if err := os.Mkdir(filepath.Join(v.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		names = append(names, d)
	}
	for n, size := range map[string]int{"a": 5, "d/b": 9000, "d/e/c": 70_001, "d/none": 0} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i * 7)
		}
		if err := os.WriteFile(filepath.Join(v.dir, n), b, 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	for n, to := range map[string]string{"link": "d/b", "d/up": "../a", "dlink": "d/e", "root": "/a"} {
		if err := os.Symlink(to, filepath.Join(v.dir, n)); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	return names
}

// TestFS is the suite of package testing/fstest.
func TestFS(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			v := serve(t)
			names := v.tree(t)
			if err := fstest.TestFS(v.open(t, network), names...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStatus: an FS says how it is reached, and counts its calls.
func TestStatus(t *testing.T) {
	v := serve(t)
	for _, network := range networks {
		f := v.open(t, network)
		want, port := "tcp", v.tcp
		if network == "iwarp" {
			want, port = "rdma/iwarp", v.rdma
		}
		before := f.Status()
		if before.Transport != want || before.Server != port.String() || before.Version == "" {
			t.Errorf("%+v", before)
		}
		if _, err := f.ReadDir("."); err != nil {
			t.Fatal(err)
		}
		if after := f.Status(); after.Calls <= before.Calls {
			t.Errorf("%d calls after %d", after.Calls, before.Calls)
		}
	}
}
