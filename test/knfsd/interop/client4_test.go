//go:build knfsd

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// TestLinuxClientMountsUs4: the kernel's client in the guest mounts the embedded server with NFSv4.1 and
// 4.2, over siw, TCP and rxe; 4.2 over siw alone unless all is asked for.
func TestLinuxClientMountsUs4(t *testing.T) {
	for _, device := range []knfsd.Service{knfsd.SIW, knfsd.RXE} {
		t.Run(device.String(), func(t *testing.T) {
			if device != knfsd.SIW {
				knfsd.NeedAll(t)
			}
			linuxClient4(t, device)
		})
	}
}

func linuxClient4(t *testing.T, device knfsd.Service) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, NoServer: true, RDMA: []knfsd.Service{device}})
	export := t.TempDir()
	if err := os.Chmod(export, 0o1777); err != nil {
		t.Fatal(err)
	}
	all := t // whose end is the end of a server
	more := []string{"-vers", "4.1,4.2", "-lease", "10s", "-async", "-delegations"}
	s := startServer(t, g, device, buildServer(t), export, more...)
	from := filepath.Join(mount.SourceTree(t), "http") // each file takes several calls of an emulated machine
	mount.CopyTree(t, from, filepath.Join(g.Share(), "tree"), nil)
	type way struct{ vers, words, shows string }
	var ways []way
	for _, vers := range []string{"4.1", "4.2"} {
		ways = append(ways, way{vers, "proto=rdma,port=20049", "proto=rdma"})
		if device == knfsd.SIW {
			ways = append(ways, way{vers, "proto=tcp,port=2049", "proto=tcp"})
		}
	}
	for _, c := range ways {
		name := c.vers + "-" + strings.TrimPrefix(c.shows, "proto=")
		t.Run(name, func(t *testing.T) {
			if name != "4.2-rdma" {
				knfsd.NeedAll(t)
			}
			guest(t, g, fmt.Sprintf("mkdir -p /mnt/us && mount -t nfs -o vers=%s,%s %s:%s /mnt/us", c.vers, c.words, g.HostAddr(), export))
			defer guest(t, g, "umount /mnt/us")
			if out := guest(t, g, "grep /mnt/us /proc/mounts"); !strings.Contains(out, c.shows) || !strings.Contains(out, "vers="+c.vers) {
				t.Errorf("mounted as %s", out)
			}
			guest(t, g, "cp -r /share/tree /mnt/us/"+name+" && sync")
			mount.SameTree(t, filepath.Join(export, name), from)
			// Past the guest's cache, and of a server that has been restarted and knows no client.
			s.stop(t)
			s = startServer(all, g, device, s.bin, export, more...)
			guest(t, g, "echo 3 > /proc/sys/vm/drop_caches")
			sameInGuest(t, g, "/mnt/us/"+name, from)
			guest(t, g, "cd /mnt/us && mkdir big && cd big && seq -f f%05g 300 | xargs touch && [ $(ls -l | wc -l) = 301 ]")
			guest(t, g, `cd /mnt/us && t=$(head -c 4000 /dev/zero | tr '\0' x) && ln -s $t long && [ "$(readlink long)" = $t ]`)
			guest(t, g, "cd /mnt/us && dd if=/dev/urandom of=r bs=1M count=8 conv=fsync 2>/dev/null && cp r s && cmp r s")
			guest(t, g, "mkdir /mnt/us/u && chown 1000:1000 /mnt/us/u && chroot --userspec=1000:1000 / sh -c "+
				"'cd /mnt/us/u && set -C && echo hi > a && ! echo again > a && mv a b && ln b c && chmod 400 c && cat b && rm -f b c'")
			// A file that is removed while it is open stays for those who have it open.
			guest(t, g, "cd /mnt/us && echo kept > gone && exec 8<gone && rm gone && [ \"$(cat <&8)\" = kept ]")
			linuxLocks4(t, g, c.vers, export)
			guest(t, g, "cd /mnt/us && rm -rf "+name+" big long r s u lock && [ -z \"$(ls -A)\" ]")
			if strings.HasSuffix(name, "rdma") {
				t.Log(guest(t, g, "grep xprt: /proc/self/mountstats"))
			}
		})
	}
	s.stop(t)
}

// linuxLocks4: the guest's locks and those of a mount of ours exclude each other.
func linuxLocks4(t *testing.T, g *knfsd.Guest, vers, export string) {
	m := mount.Mount(t, g.HostAddr().String()+":"+export, mount.Options{Words: "proto=tcp,port=2049,vers=" + vers, Wrapper: inNamespace(g)})
	endWithGuest(t, g, m)
	name := filepath.Join(m.Dir, "lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	lockIt := func() bool { return lockWhole(t, f) }
	guest(t, g, "cd /mnt/us && flock -n lock true")
	if !lockIt() {
		t.Error("a lock that the guest has given back cannot be had")
	}
	guest(t, g, "cd /mnt/us && ! flock -n lock true")
	unlockWhole(t, f)
	// The guest holds it from now on, until it is told to end.
	guest(t, g, "cd /mnt/us && (flock lock sh -c 'touch /tmp/held; while [ ! -e /tmp/end ]; do sleep 0.1; done'; rm -f /tmp/end /tmp/held) >/dev/null 2>&1 & "+
		"for i in $(seq 200); do [ -e /tmp/held ] && exit 0; sleep 0.1; done; exit 1")
	if lockIt() {
		t.Error("had a lock that the guest has")
	}
	guest(t, g, "touch /tmp/end; for i in $(seq 200); do [ -e /tmp/held ] || exit 0; sleep 0.1; done; exit 1")
	if !lockIt() {
		t.Error("a lock that the guest has given back cannot be had")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	m.Umount(t)
}

// lockWhole tries to lock all of a file for writing.
func lockWhole(t *testing.T, f *os.File) bool {
	t.Helper()
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err != nil && err != unix.EAGAIN {
		t.Fatal(err)
	}
	return err == nil
}

func unlockWhole(t *testing.T, f *os.File) {
	t.Helper()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}); err != nil {
		t.Fatal(err)
	}
}
