package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
)

const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// needACL skips a test where the file system of temporary files has no access control
// lists.
func needACL(t *testing.T) {
	t.Helper()
	f := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(f, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := setACL(f, accessACL, userACL(1000, 6)); err == unix.EOPNOTSUPP {
		t.Skip("the file system of temporary files has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
}

// userACL is a list for a file of mode 0640 with named users from uid on.
func userACL(uid uint32, perms ...uint16) []nfsclient.ACE {
	l := []nfsclient.ACE{{Tag: nfsclient.ACLUserObj, Perm: 6}}
	for k, p := range perms {
		l = append(l, nfsclient.ACE{Tag: nfsclient.ACLUser, Perm: p, ID: uid + uint32(k)})
	}
	return append(l, nfsclient.ACE{Tag: nfsclient.ACLGroupObj, Perm: 4}, nfsclient.ACE{Tag: nfsclient.ACLMask, Perm: 7}, nfsclient.ACE{Tag: nfsclient.ACLOther})
}

func setACL(path, name string, l []nfsclient.ACE) error {
	return unix.Setxattr(path, name, nfsclient.AppendACLXattr(nil, l), 0)
}

func getACL(path, name string) ([]nfsclient.ACE, error) {
	b := make([]byte, 1<<16)
	n, err := unix.Getxattr(path, name, b)
	if err != nil {
		return nil, err
	}
	l, ok := nfsclient.ParseACLXattr(b[:n])
	if !ok {
		return nil, fmt.Errorf("%q is no list", b[:n])
	}
	return l, nil
}

func wantACL(t *testing.T, path, name string, want []nfsclient.ACE) {
	t.Helper()
	got, err := getACL(path, name)
	if want == nil && err == unix.ENODATA {
		return
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s of %s: %v, %v, want %v", name, path, got, err, want)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	if st, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if st.Mode().Perm() != want {
		t.Errorf("%s has mode %v, want %v", path, st.Mode().Perm(), want)
	}
}

// TestACL: lists that are set through a mount are the server's, and the other way round;
// those that the kernel refuses never come here.
func TestACL(t *testing.T) {
	needACL(t)
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{acl: true})
			m := s.mount(t, proto, "actimeo=0")
			here, there := filepath.Join(m.Dir, "f"), filepath.Join(s.export, "f")
			if err := os.WriteFile(here, []byte("data"), 0o640); err != nil {
				t.Fatal(err)
			}
			wantACL(t, here, accessACL, nil)
			// 5 entries come in a short reply, 300 in a long one. ext4 keeps fewer than the 511 that FUSE can carry.
			for _, n := range []int{1, 296, 480} {
				l := userACL(2000, slices.Repeat([]uint16{6}, n)...)
				if err := setACL(here, accessACL, l); err != nil {
					t.Fatalf("%d entries: %v", len(l), err)
				}
				wantMode(t, here, 0o670)
				wantACL(t, there, accessACL, l)
				wantACL(t, here, accessACL, l)
			}
			if err := setACL(here, accessACL, userACL(2000, slices.Repeat([]uint16{6}, 600)...)); err != unix.E2BIG {
				t.Errorf("more entries than FUSE can carry: %v", err)
			}
			if err := os.Chmod(here, 0o600); err != nil { // sets the mask
				t.Fatal(err)
			}
			got, err := getACL(here, accessACL)
			if err != nil || got[len(got)-2] != (nfsclient.ACE{Tag: nfsclient.ACLMask}) {
				t.Errorf("after chmod 0600: %v, %v", got, err)
			}
			if err := unix.Removexattr(here, accessACL); err != nil {
				t.Error(err)
			}
			wantACL(t, there, accessACL, nil)
			wantACL(t, here, accessACL, nil)
			if err := setACL(there, accessACL, userACL(3000, 4)); err != nil {
				t.Fatal(err)
			}
			wantACL(t, here, accessACL, userACL(3000, 4))

			for what, l := range map[string][]nfsclient.ACE{
				"without others": userACL(1, 7)[:4],
				"without a mask": slices.DeleteFunc(userACL(1, 7), func(e nfsclient.ACE) bool { return e.Tag == nfsclient.ACLMask }),
			} {
				if err := setACL(here, accessACL, l); err != unix.EINVAL {
					t.Errorf("a list %s: %v", what, err)
				}
			}
			if err := setACL(here, defaultACL, userACL(1, 7)); err != unix.EACCES {
				t.Errorf("default list of a file: %v", err)
			}
			for what, err := range map[string]error{
				"set":    unix.Setxattr(here, "user.x", []byte("v"), 0),
				"get":    second(unix.Getxattr(here, "user.x", nil)),
				"remove": unix.Removexattr(here, "user.x"),
				"caps":   second(unix.Getxattr(here, "security.capability", nil)),
			} {
				if err != unix.EOPNOTSUPP {
					t.Errorf("%s of another attribute: %v", what, err)
				}
			}
			names := make([]byte, 100)
			if n, err := unix.Listxattr(here, names); err != nil || string(names[:n]) != accessACL+"\x00" {
				t.Errorf("listxattr: %q, %v", names[:max(n, 0)], err)
			}
			plain := filepath.Join(m.Dir, "plain")
			if err := os.WriteFile(plain, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Listxattr(plain, names); n != 0 || err != nil {
				t.Errorf("listxattr of a file without a list: %d, %v", n, err)
			}
		})
	}
}

func second(_ int, err error) error { return err }

// TestDefaultACL: what is made in a directory inherits as on a local file system, with
// every umask.
func TestDefaultACL(t *testing.T) {
	needACL(t)
	s := startServer(t, serverOptions{acl: true})
	m := s.mount(t, "rdma", "")
	local := t.TempDir()
	make1 := func(dir string, l []nfsclient.ACE) {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if l == nil {
			return
		}
		if err := setACL(dir, defaultACL, l); err != nil {
			t.Fatal(err)
		}
	}
	for k, l := range [][]nfsclient.ACE{nil, userACL(1000, 7), nfsclient.ModeACL(0o750), userACL(1000, 5, 6)} {
		for _, umask := range []int{0, 0o022, 0o077} {
			name := fmt.Sprintf("%d-%o", k, umask)
			here, model := filepath.Join(m.Dir, name), filepath.Join(local, name)
			make1(here, l)
			make1(model, l)
			wantACL(t, here, defaultACL, l)
			old := syscall.Umask(umask)
			for _, dir := range []string{here, model} {
				if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
					t.Error(err)
				}
				if err := os.Mkdir(filepath.Join(dir, "dir"), 0o777); err != nil {
					t.Error(err)
				}
				if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
					t.Error(err)
				}
			}
			syscall.Umask(old)
			for _, f := range []string{"file", "dir", "fifo"} {
				st, err := os.Stat(filepath.Join(model, f))
				if err != nil {
					t.Fatal(err)
				}
				wantMode(t, filepath.Join(here, f), st.Mode().Perm())
				for _, kind := range []string{accessACL, defaultACL} {
					want, err := getACL(filepath.Join(model, f), kind)
					if err != nil && err != unix.ENODATA {
						t.Fatal(err)
					}
					wantACL(t, filepath.Join(here, f), kind, want)
				}
			}
		}
	}
}
