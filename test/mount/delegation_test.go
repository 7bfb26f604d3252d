package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestDelegation: a file that the server has given a delegation of is opened, looked at and closed without a call, whatever attribute
// timeouts say, and another mount's change is seen as soon as that has ended.
func TestDelegation(t *testing.T) {
	for _, w := range ways4 {
		if !w.server.delegations {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			w.server.versions = nfsd.V3 | nfsd.V41 | nfsd.V42
			s := startServer(t, w.server)
			reader, writer := s.mount(t, w.proto, w.words+",noac"), s.mount(t, "tcp", "vers=3")
			there, here := filepath.Join(writer.Dir, "file"), filepath.Join(reader.Dir, "file")
			if err := os.WriteFile(there, []byte("before"), 0o644); err != nil {
				t.Fatal(err)
			}
			read := func(want string) {
				t.Helper()
				b, err := os.ReadFile(here)
				if err != nil || string(b) != want {
					t.Errorf("%q, %v", b, err)
				}
			}
			read("before")
			before := s.Stats().Operations["OPEN"]
			for range 10 {
				read("before")
				if i, err := os.Stat(here); err != nil || i.Size() != 6 {
					t.Errorf("%+v, %v", i, err)
				}
			}
			if n := s.Stats().Operations["OPEN"] - before; n != 0 {
				t.Errorf("%d OPENs", n)
			}
			f, err := os.Open(here)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(there, []byte("and after"), 0o644); err != nil {
				t.Fatal(err)
			}
			read("and after")
			b := make([]byte, 20)
			if n, err := f.ReadAt(b, 0); string(b[:n]) != "and after" {
				t.Errorf("through what was open: %q, %v", b[:n], err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if n := reader.Stats(t).Callbacks; n == 0 {
				t.Error("nothing was recalled")
			}
		})
	}
}
