package mount

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/realm"
)

// kerberos4Host is version4Host for a machine that knows the realm's users.
const kerberos4Host = `mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha && cd /run &&
(cat /etc/passwd; echo alice:x:1001:1001::/:/bin/sh; echo bob:x:1002:1002::/:/bin/sh) >passwd && mount --bind passwd /etc/passwd &&
(cat /etc/group; echo alice:x:1001:; echo bob:x:1002:) >group && mount --bind group /etc/group &&
printf '[General]\nDomain = test.lan\nLocal-Realms = ` + realm.Name + `\n[Mapping]\n[Translation]\nMethod = nsswitch\n' >idmapd.conf &&
mount --bind idmapd.conf /etc/idmapd.conf && exec "$@"`

// TestKerberosVersion4 mounts nfs-ganesha, whose RPCSEC_GSS is neither ours nor Linux', with
// NFSv4.1 and 4.2 and each service of Kerberos.
func TestKerberosVersion4(t *testing.T) {
	if _, err := os.Stat("/etc/idmapd.conf"); err != nil {
		t.Skip("/etc/idmapd.conf is missing (Debian: libnfsidmap1)")
	}
	inVersion4On(t, kerberos4Host, kerberos4)
}

// kerberos4 is the client.
func kerberos4(t *testing.T, dir string) {
	k := &kerberized{r: realm.Start(t), tickets: userDir(t)}
	t.Setenv("KRB5_CONFIG", k.r.Conf())
	t.Setenv("KRB5CCNAME", "")
	keytab := k.r.AddService(realm.Service)
	k.machine = k.r.AddService(machinePrincipal)
	for user, id := range realmUsers {
		k.r.AddUser(user, "secret")
		k.kinit(user, id)
		t.Cleanup(func() { _ = os.Remove(k.cache(id)) })
	}
	krb5 := fmt.Sprintf("Active_krb5 = true; PrincipalName = nfs; KeytabPath = %q; CCacheDir = %q;", keytab, dir)
	s := newServer4Secured(t, dir, lease, krb5, "krb5, krb5i, krb5p", k.r.Env())
	if err := os.Chmod(s.data, 0o1777); err != nil {
		t.Fatal(err)
	}
	mount := func(t *testing.T, more string) *Mounted {
		t.Helper()
		at := userDir(t)
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
		return Mount(t, "localhost:/export/data", Options{Dir: at, Words: "proto=tcp,nconnect=2,allow_other,krb5_keytab=" + k.machine +
			",krb5_principal=" + machinePrincipal + ",krb5_ccache=FILE:" + k.tickets + "/cc_%{uid}," + more})
	}
	for _, vers := range []string{"4.1", "4.2"} {
		for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
			t.Run(vers+" "+sec, func(t *testing.T) {
				m := mount(t, "vers="+vers+",sec="+sec)
				for user, id := range realmUsers {
					// The server need not see what is removed behind its back.
					name := user + vers + sec
					file := filepath.Join(m.Dir, name)
					run(t, as(id), "sh", "-c", "umask 077; head -c 3000000 /dev/urandom >"+file)
					got, err := exec.Command("setpriv", append(as(id)[1:], "cat", file)...).Output()
					there, err2 := os.ReadFile(filepath.Join(s.data, name))
					var st syscall.Stat_t
					err3 := syscall.Stat(filepath.Join(s.data, name), &st)
					if err != nil || err2 != nil || err3 != nil || !bytes.Equal(got, there) || len(got) != 3000000 || st.Uid != id {
						t.Errorf("%s's file: %d bytes, %d at the server, of user %d; %v, %v, %v", user, len(got), len(there), st.Uid, err, err2, err3)
					}
				}
				fails(t, realmUsers["bob"], "cat", filepath.Join(m.Dir, "alice"+vers+sec))
				fails(t, 1003, "ls", m.Dir)
				m.Umount(t)
			})
		}
	}
	t.Run("chosen", func(t *testing.T) {
		m := mount(t, "vers=4.2")
		run(t, as(1001), "touch", filepath.Join(m.Dir, "file"))
		// It names the strongest first, whatever the order of its configuration.
		if got := m.inForce(t).Security; got != "krb5p" {
			t.Errorf("sec=%s, and the server names krb5p first", got)
		}
		m.Umount(t)
	})
	t.Run("crashes", func(t *testing.T) { crashes4(t, s, mount(t, "vers=4.2,sec=krb5p")) })
}
