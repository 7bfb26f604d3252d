//go:build knfsd

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/realm"
)

// TestKerberosLinuxClient: the kernel's client in the guest mounts the embedded server with each
// flavor, over siw and over TCP. root has a ticket as root, tester one as the host's user daemon,
// and alice none.
func TestKerberosLinuxClient(t *testing.T) {
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, NoServer: true, RDMA: []knfsd.Service{knfsd.SIW}})
	export := t.TempDir()
	if err := os.Chmod(export, 0o1777); err != nil {
		t.Fatal(err)
	}
	const host, service = "host.test.lan", "nfs/host.test.lan"
	r := realm.Start(t)
	keytab := r.AddService(service)
	share := filepath.Join(g.Share(), "kerberos")
	if err := os.Mkdir(share, 0o755); err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile(r.Conf())
	if err == nil {
		err = os.WriteFile(filepath.Join(share, "krb5.conf"), conf, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for user, uid := range map[string]int{"root": 0, "daemon": 1000} {
		r.AddUser(user, "secret")
		cache := filepath.Join(share, fmt.Sprint("krb5cc_", uid))
		r.Kinit(user, "secret", cache, 0)
		// The guest reaches no KDC.
		r.Ticket(cache, service)
		guest(t, g, fmt.Sprintf("install -m 600 -o %d /share/kerberos/krb5cc_%[1]d /tmp/", uid))
	}
	guest(t, g, fmt.Sprintf("echo %v %s >>/etc/hosts; guest kerberos_client /share/kerberos", g.HostAddr(), host))
	s := startServer(t, g, knfsd.SIW, buildServer(t), export, "-sec", "krb5,krb5i,krb5p", "-keytab", keytab)
	const as = "chroot --userspec=%d:%[1]d / sh -c '%s'"
	for _, way := range []string{"proto=rdma,port=20049", "proto=tcp,port=2049"} {
		for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
			t.Run(way[:10]+" "+sec, func(t *testing.T) {
				guest(t, g, fmt.Sprintf("mkdir -p /mnt/us && mount -t nfs -o vers=3,%s,sec=%s,mountport=2049,mountproto=tcp,nolock %s:%s /mnt/us", way, sec, host, export))
				defer guest(t, g, "umount /mnt/us")
				guest(t, g, "cd /mnt/us && dd if=/dev/urandom of=/tmp/r bs=1M count=8 2>/dev/null && cp /tmp/r r && sync r && echo 3 >/proc/sys/vm/drop_caches && cmp /tmp/r r")
				guest(t, g, "cd /mnt/us && mkdir big && cd big && seq -f f%05g 500 | xargs touch && [ $(ls -l | wc -l) = 501 ]")
				guest(t, g, `cd /mnt/us && t=$(head -c 4000 /dev/zero | tr '\0' x) && ln -s $t long && [ "$(readlink long)" = $t ]`)
				guest(t, g, fmt.Sprintf(as, 1000, "cd /mnt/us && echo mine >daemons && cat daemons"))
				var st syscall.Stat_t
				if err := syscall.Stat(filepath.Join(export, "daemons"), &st); err != nil || st.Uid != 1 {
					t.Errorf("tester's file belongs to %d, %v", st.Uid, err)
				}
				guest(t, g, fmt.Sprintf("! "+as, 1001, "ls /mnt/us")+" 2>&1 | grep -q denied")
				guest(t, g, "cd /mnt/us && rm -rf big long r daemons && [ -z \"$(ls -A)\" ]")
			})
		}
	}
	s.stop(t)
}
