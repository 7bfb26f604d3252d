//go:build knfsd

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// TestKerberosMountsLinuxServer mounts the Linux server with each service of Kerberos, over
// TCP and over iWARP, with NFSv3 and v4: users' files are theirs, and who has no ticket is
// refused. Two of the ways are enough unless all is asked for.
func TestKerberosMountsLinuxServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("several users need root")
	}
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}, ExportOptions: kerberosExport})
	guest(t, g, "chmod 1777 /export")
	r := kerberize(t, g)
	t.Setenv("KRB5_CONFIG", r.Conf())
	machine := r.AddService("host/client.test.lan")
	open, err := os.MkdirTemp("", "rdmafs-krb5.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	users := map[string]int{"alice": 1001, "bob": 1002}
	for user, id := range users {
		cache := filepath.Join(open, fmt.Sprint("cc_", id))
		r.Kinit(user, "secret", cache, 0)
		r.Give(id, id, cache)
	}
	words := "allow_other,krb5_keytab=" + machine + ",krb5_principal=host/client.test.lan,krb5_ccache=FILE:" + open + "/cc_%{uid}"
	as := func(id int, args ...string) ([]byte, error) {
		id1 := fmt.Sprint(id)
		line := append([]string{"--reuid=" + id1, "--regid=" + id1, "--clear-groups"}, args...)
		return exec.Command("setpriv", line...).CombinedOutput()
	}
	for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
		for _, vers := range []string{"3", "4.2"} {
			for _, proto := range []string{"tcp", "rdma"} {
				name := sec + " " + vers + " " + proto
				t.Run(name, func(t *testing.T) {
					if name != "krb5i 3 tcp" && name != "krb5p 4.2 rdma" {
						knfsd.NeedAll(t)
					}
					dir := filepath.Join(open, "mnt")
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					log := filepath.Join(t.TempDir(), "log")
					m := mount.Mount(t, "localhost:/export", mount.Options{Dir: dir,
						Words: fmt.Sprintf("%s,vers=%s,nconnect=2,logfile=%s,sec=%s,%s", hostWords(g)(proto), vers, log, sec, words)})
					endWithGuest(t, g, m)
					for user, id := range users {
						file := filepath.Join(dir, user)
						out, err := as(id, "sh", "-c", "umask 077; head -c 3000000 /dev/urandom >"+file+" && sha256sum <"+file)
						if err != nil {
							t.Fatalf("%s: %v: %s", user, err, out)
						}
						there := guest(t, g, fmt.Sprintf("stat -c '%%u %%a %%s' /export/%s; sha256sum </export/%[1]s", user))
						if want := fmt.Sprintf("%d 600 3000000\n%s", id, out); strings.TrimSpace(there) != strings.TrimSpace(want) {
							t.Errorf("at the server %q, want %q", there, want)
						}
					}
					for id, file := range map[int]string{1002: "alice", 1001: "bob", 1003: "."} {
						if out, err := as(id, "sh", "-c", "ls "+dir+"/. && cat "+filepath.Join(dir, file)); err == nil || !bytes.Contains(out, []byte("denied")) {
							t.Errorf("user %d: %v, %s", id, err, out)
						}
					}
					m.Umount(t)
					guest(t, g, "rm -f /export/*")
					if said, err := os.ReadFile(log); err != nil || bytes.Contains(said, []byte("connection to")) || !bytes.Contains(said, []byte("run kinit")) {
						t.Errorf("the log: %v\n%s", err, said)
					}
				})
			}
		}
	}
	t.Run("chosen", func(t *testing.T) {
		guest(t, g, "exportfs -o "+strings.Replace(kerberosExport, "sec=sys:", "sec=", 1)+" '*:/export'")
		for _, vers := range []string{"3", "4.2"} {
			dir := filepath.Join(open, "mnt")
			log := filepath.Join(t.TempDir(), "log")
			m := mount.Mount(t, "localhost:/export", mount.Options{Dir: dir,
				Words: fmt.Sprintf("%s,vers=%s,logfile=%s,%s", hostWords(g)("tcp"), vers, log, words)})
			endWithGuest(t, g, m)
			if out, err := as(1001, "touch", filepath.Join(dir, "file")); err != nil {
				t.Errorf("NFSv%s: %v: %s", vers, err, out)
			}
			m.Umount(t)
			if said, err := os.ReadFile(log); err != nil || !bytes.Contains(said, []byte("the server wants sec=krb5")) {
				t.Errorf("NFSv%s, the log: %v\n%s", vers, err, said)
			}
		}
	})
}
