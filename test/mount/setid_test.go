package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSetIDIsAskedFor: the kernel executes a file by the mode that it has. It asks for
// that each time if it is suid or sgid, so that it sees what the server has taken away.
func TestSetIDIsAskedFor(t *testing.T) {
	s := startServer(t, serverOptions{})
	r := countRequests(t, s.source(), s.words("tcp", "actimeo=600"))
	dir, program := filepath.Join(r.dir, "dir"), filepath.Join(r.dir, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, set := range []os.FileMode{os.ModeSetuid, os.ModeSetgid} {
		for _, name := range []string{dir, program} {
			if err := os.Chmod(name, 0o755|set); err != nil {
				t.Fatal(err)
			}
			r.take(t)
			for range 3 {
				if _, err := os.Stat(name); err != nil {
					t.Error(err)
				}
			}
			want := counts{"GETATTR": 3}
			if name == dir {
				want = counts{"LOOKUP": 1} // the kernel's, once after each chmod of a directory
			}
			r.want(t, set.String()+" "+name, want)
		}
	}
}

// TestSetID: the server takes suid and sgid away when a file is written or cut by
// another user, or given away, and the mount shows that at once.
func TestSetID(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := sharedMount(t, s, "tcp", "allow_other,actimeo=600")
	name := filepath.Join(m.Dir, "f")
	as := func(args ...string) func() error {
		return func() error {
			out, err := asNobody(args...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}
	}
	for _, c := range []struct {
		what   string
		change func() error
		keeps  bool
	}{
		{"written by another user", as("sh", "-c", `printf x 1<>"$1"`, "sh", name), false},
		{"appended to by another user", as("sh", "-c", `printf x >>"$1"`, "sh", name), false},
		{"cut by another user", as("truncate", "-s", "2", name), false},
		{"cut at open by another user", as("sh", "-c", `: >"$1"`, "sh", name), false},
		{"given away", func() error { return os.Chown(name, 65534, 65534) }, false},
		{"written by root", func() error { return os.WriteFile(name, []byte("root"), 0) }, true},
		{"touched by root", func() error { return os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0)) }, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			if err := os.WriteFile(name, []byte("program"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(name, 0, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, 0o777|os.ModeSetuid|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			here, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			there, err := os.Stat(filepath.Join(s.export, "f"))
			if err != nil {
				t.Fatal(err)
			}
			want := os.FileMode(0o777)
			if c.keeps {
				want |= os.ModeSetuid | os.ModeSetgid
			}
			if here.Mode() != want || there.Mode() != want {
				t.Errorf("the mode is %v here, %v on the server; want %v", here.Mode(), there.Mode(), want)
			}
		})
	}
}
