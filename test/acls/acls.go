// Package acls is one suite of POSIX access control lists for every mount.
//
// It owns no state and starts no goroutine.
package acls

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

// The extended attributes that are a file's lists.
const (
	Access  = "system.posix_acl_access"
	Default = "system.posix_acl_default"
)

// Need skips a test where the file system of temporary files has no lists.
func Need(t *testing.T) {
	t.Helper()
	f := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(f, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Set(f, Access, Users(1000, 6)); err == unix.EOPNOTSUPP {
		t.Skip("the file system of temporary files has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
}

// Users is a list for a file of mode 0640 with named users from uid on.
func Users(uid uint32, perms ...uint16) []nfsclient.ACE {
	l := []nfsclient.ACE{{Tag: nfsclient.ACLUserObj, Perm: 6}}
	for k, p := range perms {
		l = append(l, nfsclient.ACE{Tag: nfsclient.ACLUser, Perm: p, ID: uid + uint32(k)})
	}
	return append(l, nfsclient.ACE{Tag: nfsclient.ACLGroupObj, Perm: 4}, nfsclient.ACE{Tag: nfsclient.ACLMask, Perm: 7}, nfsclient.ACE{Tag: nfsclient.ACLOther})
}

// Set sets one of a file's lists.
func Set(path, name string, l []nfsclient.ACE) error {
	return unix.Setxattr(path, name, nfsclient.AppendACLXattr(nil, l), 0)
}

// Get reads one of a file's lists.
func Get(path, name string) ([]nfsclient.ACE, error) {
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
	got, err := Get(path, name)
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

// Run runs the suite in here, a directory of a mount that caches no attributes. there is the
// same directory seen another way: the server's own, or another such mount.
func Run(t *testing.T, here, there string) {
	t.Run("file", func(t *testing.T) { file(t, filepath.Join(here, "f"), filepath.Join(there, "f")) })
	t.Run("inherited", func(t *testing.T) { inherited(t, here) })
}

// file: lists that are set here are there, and the other way round; those that the kernel
// refuses never get out.
func file(t *testing.T, here, there string) {
	if err := os.WriteFile(here, []byte("data"), 0o640); err != nil {
		t.Fatal(err)
	}
	wantACL(t, here, Access, nil)
	// 5 entries come in a short reply, 300 in a long one. ext4 keeps fewer than the 511 that FUSE can carry.
	for _, n := range []int{1, 296, 480} {
		l := Users(2000, slices.Repeat([]uint16{6}, n)...)
		err := Set(here, Access, l)
		if n == 480 && err == unix.ENOSPC {
			t.Logf("the server takes no list of %d entries", len(l))
			continue
		}
		if err != nil {
			t.Fatalf("%d entries: %v", len(l), err)
		}
		wantMode(t, here, 0o670)
		wantACL(t, there, Access, l)
		wantACL(t, here, Access, l)
	}
	if err := Set(here, Access, Users(2000, slices.Repeat([]uint16{6}, 600)...)); err != unix.E2BIG {
		t.Errorf("more entries than FUSE can carry: %v", err)
	}
	if err := os.Chmod(here, 0o600); err != nil { // sets the mask
		t.Fatal(err)
	}
	got, err := Get(here, Access)
	if err != nil || got[len(got)-2] != (nfsclient.ACE{Tag: nfsclient.ACLMask}) {
		t.Errorf("after chmod 0600: %v, %v", got, err)
	}
	if err := unix.Removexattr(here, Access); err != nil {
		t.Error(err)
	}
	wantACL(t, there, Access, nil)
	wantACL(t, here, Access, nil)
	if err := Set(there, Access, Users(3000, 4)); err != nil {
		t.Fatal(err)
	}
	wantACL(t, here, Access, Users(3000, 4))

	for what, l := range map[string][]nfsclient.ACE{
		"without others": Users(1, 7)[:4],
		"without a mask": slices.DeleteFunc(Users(1, 7), func(e nfsclient.ACE) bool { return e.Tag == nfsclient.ACLMask }),
	} {
		if err := Set(here, Access, l); err != unix.EINVAL {
			t.Errorf("a list %s: %v", what, err)
		}
	}
	if err := Set(here, Default, Users(1, 7)); err != unix.EACCES {
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
	if n, err := unix.Listxattr(here, names); err != nil || string(names[:n]) != Access+"\x00" {
		t.Errorf("listxattr: %q, %v", names[:max(n, 0)], err)
	}
	plain := here + "-plain"
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Listxattr(plain, names); n != 0 || err != nil {
		t.Errorf("listxattr of a file without a list: %d, %v", n, err)
	}
}

func second(_ int, err error) error { return err }

// inherited: what is made in a directory inherits as on a local file system, with every
// umask.
func inherited(t *testing.T, dir string) {
	local := t.TempDir()
	mkdir := func(dir string, l []nfsclient.ACE) {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if l == nil {
			return
		}
		if err := Set(dir, Default, l); err != nil {
			t.Fatal(err)
		}
	}
	for k, l := range [][]nfsclient.ACE{nil, Users(1000, 7), nfsclient.ModeACL(0o750), Users(1000, 5, 6)} {
		for _, umask := range []int{0, 0o022, 0o077} {
			name := fmt.Sprintf("%d-%o", k, umask)
			here, model := filepath.Join(dir, name), filepath.Join(local, name)
			mkdir(here, l)
			mkdir(model, l)
			wantACL(t, here, Default, l)
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
				for _, kind := range []string{Access, Default} {
					want, err := Get(filepath.Join(model, f), kind)
					if err != nil && err != unix.ENODATA {
						t.Fatal(err)
					}
					wantACL(t, filepath.Join(here, f), kind, want)
				}
			}
		}
	}
}
