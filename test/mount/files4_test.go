package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestFiles4: without a version and a list of exports, files are found by version 4 where the server has it. Where it has not, and
// rpcbind is not to be had either, the error says so.
func TestFiles4(t *testing.T) {
	for _, served := range []nfsd.Versions{nfsd.V3 | nfsd.V41 | nfsd.V42, nfsd.V41, nfsd.V3} {
		t.Run(fmt.Sprintf("%b", served), func(t *testing.T) {
			s := startServer(t, serverOptions{versions: served})
			must.Do(t, os.MkdirAll(filepath.Join(s.export, "a/b"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(s.export, "a/b/file"), []byte("content"), 0o644))
			files := func(args ...string) Result {
				return Command(t, nil, append([]string{args[0], "-o", fmt.Sprintf("proto=tcp,retry=0,port=%d", s.tcp.Port())}, args[1:]...)...)
			}
			in := s.source() + "/a/b/"
			if served == nfsd.V3 {
				if r := files("cat", in+"file"); r.Code == 0 || !strings.Contains(r.Stderr, "rpcbind") {
					t.Errorf("cat: exit code %d: %s", r.Code, r.Stderr)
				}
				return
			}
			if r := files("cat", in+"file", in+"file"); r.Code != 0 || r.Stdout != "contentcontent" {
				t.Errorf("cat: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			if r := files("ls", s.tcp.Addr().String()+":/"); r.Code != 0 || r.Stdout != strings.Split(s.export, "/")[1]+"\n" {
				t.Errorf("ls: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			if r := files("cp", in+"file", s.source()+"/copy"); r.Code != 0 {
				t.Errorf("cp: exit code %d: %s", r.Code, r.Stderr)
			}
			if b, err := os.ReadFile(filepath.Join(s.export, "copy")); string(b) != "content" {
				t.Errorf("%q, %v", b, err)
			}
			if r := files("cat", in+"none"); r.Code != 1 || !strings.Contains(r.Stderr, in+"none: no such file") {
				t.Errorf("cat of nothing: exit code %d: %s", r.Code, r.Stderr)
			}
		})
	}
}
