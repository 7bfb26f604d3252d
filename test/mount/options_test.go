package mount

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mountTableOptions are the options of a mount point in the mount table: those
// of the mount and, behind "-", those of the file system.
func mountTableOptions(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if w := strings.Fields(line); w[4] == dir {
			return append(strings.Split(w[5], ","), strings.Split(w[len(w)-1], ",")...)
		}
	}
	t.Fatalf("%s is not in the mount table", dir)
	return nil
}

// TestMountOptions: the words of mount(8) that --help lists do what they say,
// for root, who mounts without help, and for others, who need fusermount3.
func TestMountOptions(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, who := range []struct {
		name    string
		wrapper []string
		root    bool
	}{{"root", nil, true}, {"user", asUser(t), false}} {
		if who.root && os.Geteuid() != 0 {
			continue
		}
		for _, c := range []struct {
			words     string
			has, lack []string
			rootOnly  bool // fusermount3 does not give these to users
		}{
			{words: "", has: []string{"rw", "nosuid", "nodev", "relatime"}},
			{words: "ro", has: []string{"ro", "nosuid", "nodev"}, lack: []string{"rw"}},
			{words: "ro,noatime", has: []string{"ro", "noatime"}, lack: []string{"rw"}},
			{words: "ro,sync,noexec", has: []string{"ro", "sync", "noexec"}, lack: []string{"rw"}},
			{words: "ro,rw", has: []string{"rw"}, lack: []string{"ro"}},
			{words: "noexec", has: []string{"noexec"}},
			{words: "noexec,exec", lack: []string{"noexec"}},
			{words: "noatime", has: []string{"noatime"}},
			{words: "noatime,atime", lack: []string{"noatime"}},
			{words: "relatime", has: []string{"relatime"}},
			{words: "sync", has: []string{"sync"}},
			{words: "sync,async", lack: []string{"sync"}},
			{words: "dirsync", has: []string{"dirsync"}},
			{words: "nosuid,nodev", has: []string{"nosuid", "nodev"}},
			{words: "suid,dev", lack: []string{"nosuid", "nodev"}, rootOnly: true},
			{words: "dev,suid,noexec", has: []string{"noexec"}, lack: []string{"nosuid", "nodev"}, rootOnly: true},
			{words: "defaults,_netdev,nofail,user,x-systemd.automount,comment=x", has: []string{"rw"}},
		} {
			if c.rootOnly && !who.root {
				continue
			}
			t.Run(who.name+"/"+c.words, func(t *testing.T) {
				dir := t.TempDir()
				if !who.root {
					dir = userDir(t)
				}
				m := Mount(t, s.source(), Options{Words: s.words("rdma", c.words), Wrapper: who.wrapper, Dir: dir})
				got := mountTableOptions(t, dir)
				for _, w := range c.has {
					if !slices.Contains(got, w) {
						t.Errorf("%q is missing: %v", w, got)
					}
				}
				for _, w := range c.lack {
					if slices.Contains(got, w) {
						t.Errorf("%q is there: %v", w, got)
					}
				}
				m.Umount(t)
			})
		}
	}
}

// TestNoexec: the option reaches the kernel and is obeyed, by root too.
func TestNoexec(t *testing.T) {
	s := startServer(t, serverOptions{})
	script := filepath.Join(s.export, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]error{"": nil, "noexec": syscall.EACCES} {
		m := s.mount(t, "rdma", words)
		if err := exec.Command(filepath.Join(m.Dir, "script")).Run(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", words, err, want)
		}
		m.Umount(t)
	}
}
