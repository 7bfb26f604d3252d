package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// guides are options of the lines for fstab in servers' public guides, for Linux, and why
// one is refused.
var guides = []struct{ name, words, refused string }{
	{"NetApp-ONTAP", "rw,bg,hard,nointr,vers=3,proto=tcp,rsize=65536,wsize=65536,timeo=600,nconnect=8,_netdev", ""},
	{"VAST", "rw,vers=3,proto=rdma,port=20049,nconnect=8,noidlexprt,relatime", ""},
	{"VAST-addresses", "vers=3,proto=rdma,port=20049,nconnect=8,remoteports=172.16.0.1-172.16.0.8,spread_reads,spread_writes", ""},
	{"Dell-PowerScale", "rw,hard,tcp,vers=3,rsize=131072,wsize=524288,nconnect=4,mountproto=tcp,timeo=600,retrans=2", ""},
	{"Pure-FlashBlade", "rw,hard,intr,vers=3,proto=tcp,nconnect=16,rsize=524288,wsize=524288,timeo=600,noatime,nodiratime", ""},
	{"Qumulo", "defaults,nfsvers=3,hard,tcp,nconnect=8,local_lock=flock,nofail,_netdev", ""},
	{"Hammerspace", "vers=3,hard,nosharecache,nconnect=4,noacl,x-systemd.automount", ""},
	{"WEKA", "vers=3,proto=tcp,hard,acregmin=3,acdirmin=30,lookupcache=pos,noresvport", ""},
	{"Azure-Files", "vers=4,minorversion=1,sec=sys,nconnect=4,noresvport,actimeo=30", "try vers=3"},
	{"AWS-EFS", "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev", "try vers=3"},
}

// TestGuides: the real mount(8) mounts the lines of servers' guides, with the type alone
// changed and the embedded server's ports, or says why not.
func TestGuides(t *testing.T) {
	s := startServer(t, serverOptions{})
	var fstab strings.Builder
	dirs := make([]string, len(guides))
	for k, g := range guides {
		proto := "tcp"
		if strings.Contains(g.words, "rdma") {
			proto = "rdma"
		}
		dirs[k] = t.TempDir()
		// The server has no address but those of this host.
		words := strings.ReplaceAll(g.words, "172.16.0.", "127.0.0.")
		fmt.Fprintf(&fstab, "%s %s rdmafs noauto,%s,%s 0 0\n", s.source(), dirs[k], words, s.words(proto, ""))
	}
	h := newHelped(t, fstab.String(), "mount.rdmafs")
	for k, g := range guides {
		t.Run(g.name, func(t *testing.T) {
			r := h.run(nil, "mount", dirs[k])
			if g.refused != "" {
				if r.Code == 0 || !strings.Contains(r.Stderr, g.refused) {
					t.Errorf("exit code %d: %s", r.Code, r.Stderr)
				}
				return
			}
			if r.Code != 0 || !h.mounted(dirs[k]) {
				t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
			}
			h.must(nil, "sh", "-c", `echo data >"$0"`, filepath.Join(dirs[k], "file"))
			h.must(nil, "umount", dirs[k])
			if h.mounted(dirs[k]) {
				t.Error("mounted after umount")
			}
		})
	}
}

// TestMountAll: mount -a and umount -a, by either type; an umount that is rdmafs returns
// when everything is written.
func TestMountAll(t *testing.T) {
	s := startServer(t, serverOptions{})
	one, two, not := t.TempDir(), t.TempDir(), t.TempDir()
	words := s.words("rdma", "_netdev,nofail")
	h := newHelped(t, fmt.Sprintf("%s %s fuse.rdmafs %s 0 0\n%s %s rdmafs ro,%s 0 0\n%s %s rdmafs noauto,%s 0 0\n",
		s.source(), one, words, s.source(), two, words, s.source(), not, words),
		"mount.rdmafs", "mount.fuse.rdmafs", "umount.rdmafs", "umount.fuse.rdmafs")
	h.must(nil, "mount", "-a")
	if !h.mounted(one) || !h.mounted(two) || h.mounted(not) {
		t.Fatalf("mounted: %t, %t, and noauto %t", h.mounted(one), h.mounted(two), h.mounted(not))
	}
	h.must(nil, "sh", "-c", `echo data >"$0"`, filepath.Join(one, "file"))
	if r := h.run(nil, "sh", "-c", `echo data >"$0"`, filepath.Join(two, "other")); !strings.Contains(r.Stderr, "Read-only") {
		t.Errorf("written to a mount that is read-only: %+v", r)
	}
	h.must(nil, "umount", "-a", "-t", "fuse.rdmafs")
	if h.mounted(one) || h.mounted(two) {
		t.Error("mounted after umount -a")
	}
	if b, err := os.ReadFile(filepath.Join(s.export, "file")); string(b) != "data\n" || err != nil {
		t.Errorf("the server has %q, %v", b, err)
	}
	h.must(nil, "mount", "--fake", two)
	if h.mounted(two) {
		t.Error("mount -f has mounted")
	}
	if r := h.run(nil, "mount", "-v", two); r.Code != 0 || !strings.Contains(r.Stderr, "rdmafs: mounted "+s.source()) {
		t.Errorf("mount -v: %+v", r)
	}
	if r := h.run(nil, "mount", "-t", "rdmafs", "-o", "frobnicate,"+words, s.source(), not); r.Code == 0 {
		t.Error("an unknown option was taken")
	}
	h.must(nil, "mount", "-s", "-t", "rdmafs", "-o", "frobnicate,"+words, s.source(), not)
}

// TestFstabUsers: an ordinary user mounts and unmounts what fstab gives to users, with the
// real mount(8), which leaves its helpers no PATH to find fusermount3 by.
func TestFstabUsers(t *testing.T) {
	for _, word := range []string{"users", "user"} {
		t.Run(word, func(t *testing.T) {
			s := startServer(t, serverOptions{mode: 0o1777})
			dir := userDir(t)
			h := newHelped(t, fmt.Sprintf("%s %s fuse.rdmafs noauto,%s,%s 0 0\n", s.source(), dir, word, s.words("rdma", "")), "mount.fuse.rdmafs")
			who := asUser(t)
			h.must(who, "mount", dir)
			if !h.mounted(dir) {
				t.Fatal("not mounted")
			}
			h.must(who, "sh", "-c", `echo data >"$0"`, filepath.Join(dir, "file"))
			h.must(who, "umount", dir)
			if h.mounted(dir) {
				t.Error("mounted after umount")
			}
		})
	}
}
