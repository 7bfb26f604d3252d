//go:build guest

package interop

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/rights"
)

// TestInsideRights: users may do on a mount of the Linux server what they may on a local
// file system, as whom the server takes them for. Linux protects links of others here;
// its server leaves that to clients.
func TestInsideRights(t *testing.T) {
	guest(t, here{}, "for i in hardlinks symlinks fifos regular; do echo 1 >/proc/sys/fs/protected_$i; done")
	for i, c := range []struct {
		squash string
		mode   os.FileMode
		words  string
		every  int
	}{ // the emulated machine is slow
		{"no_root_squash", 0o755, "allow_other", 9},
		{"no_root_squash", 0o755, "allow_other,default_permissions", 19},
		{"root_squash", 0o755, "allow_other", 13},
		{"root_squash", 0o700, "allow_other", 37},
		{"root_squash", 0o755, "allow_other,default_permissions", 29},
		{"all_squash", 0o755, "allow_other", 23},
		{"all_squash", 0o755, "allow_other,default_permissions", 31},
		{"no_root_squash", 0o755, "allow_other,vers=4.2", 33},
		{"root_squash", 0o755, "allow_other,vers=4.2", 17},
		{"root_squash", 0o700, "allow_other,vers=4.2", 41},
		{"all_squash", 0o755, "allow_other,vers=4.2", 43},
	} {
		t.Run(fmt.Sprintf("%s %04o %s", c.squash, c.mode, c.words), func(t *testing.T) {
			// A file system of its own: on a shared one a server of NFSv4 applies the options of the
			// outermost export on the path.
			export, oracle := fmt.Sprintf("/rights%d", i), t.TempDir()
			guest(t, here{}, "chmod 755 "+oracle+"/..")
			server(t, fmt.Sprintf(`mkdir %[1]s && mount -t tmpfs rights %[1]s && exportfs -o rw,async,insecure,no_subtree_check,%[2]s,fsid=%[3]d "*:%[1]s"`, export, c.squash, 100+i))
			t.Cleanup(func() {
				server(t, fmt.Sprintf(`exportfs -u "*:%[1]s" && exportfs -f && umount -l %[1]s && rmdir %[1]s`, export))
			})
			as := func(u rights.User) rights.User {
				if c.squash == "all_squash" || c.squash == "root_squash" && u.UID == 0 {
					return rights.Other
				}
				return u
			}
			rights.Run(t, rights.Config{
				Backing: "/proc/1/root" + export, Oracle: oracle, Mode: c.mode, As: as, Kernel: strings.Contains(c.words, "default_permissions"), Linux: true, Every: c.every,
				Mount: func() string {
					dir := t.TempDir()
					guest(t, here{}, "chmod 755 "+dir+"/..")
					return mount.Mount(t, "127.0.0.1:"+export, mount.Options{Words: "proto=tcp," + c.words, Dir: dir}).Dir
				},
			})
		})
	}
}

// server runs a command in the server's mount namespace, of which a test has a copy.
func server(t *testing.T, command string) {
	t.Helper()
	guest(t, here{}, "nsenter -t 1 -m bash -ec '"+command+"'")
}

// TestInsideSubmount: files of two file systems that one export shows have inode numbers of
// their own, though each server's file system numbers them alike.
func TestInsideSubmount(t *testing.T) {
	server(t, `mkdir /outer && mount -t tmpfs outer /outer && mkdir /outer/sub && mount -t tmpfs sub /outer/sub && touch /outer/f{1..40} /outer/sub/f{1..40} && `+
		`[ -n "$(find /outer -type f -printf "%i\n" | sort | uniq -d)" ] && exportfs -o rw,insecure,no_root_squash,no_subtree_check,crossmnt,fsid=200 "*:/outer" && `+
		`exportfs -o rw,insecure,no_root_squash,no_subtree_check,nohide,fsid=201 "*:/outer/sub"`)
	t.Cleanup(func() {
		server(t, `exportfs -u "*:/outer/sub" && exportfs -u "*:/outer" && exportfs -f && umount -l /outer && rmdir /outer`)
	})
	m := mount.Mount(t, "127.0.0.1:/outer", mount.Options{Words: "proto=tcp", Dir: t.TempDir()})
	guest(t, here{}, fmt.Sprintf(`cd %s && [ $(find . | wc -l) = 82 ] && [ -z "$(find . -printf '%%i\n' | sort | uniq -d)" ] && [ -z "$(ls -iR | awk 'NF == 2 { print $1 }' | sort | uniq -d)" ]`, m.Dir))
	if err := os.Rename(m.Dir+"/f1", m.Dir+"/sub/g1"); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("rename into the other file system: %v", err)
	}
	if err := os.Link(m.Dir+"/f1", m.Dir+"/sub/g1"); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("link into the other file system: %v", err)
	}
	guest(t, here{}, fmt.Sprintf("cd %s && mv f1 sub/g1 && [ -e sub/g1 ] && [ ! -e f1 ]", m.Dir))
}
