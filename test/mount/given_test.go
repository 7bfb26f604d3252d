package mount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// giveMount mounts a descriptor of /dev/fuse for an ordinary user, as a privileged parent
// does.
func giveMount(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=65534,group_id=65534,allow_other", f.Fd())
	if err := unix.Mount("given", dir, "fuse.rdmafs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return f
}

// commandWith is Command of a process that has f as descriptor 3.
func commandWith(t *testing.T, f *os.File, wrapper []string, args ...string) Result {
	t.Helper()
	line := append(append(slices.Clone(wrapper), Binary(t)), args...)
	cmd := exec.Command(line[0], line[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.ExtraFiles = []*os.File{f}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// unprivileged is an ordinary user whom no program gives privileges.
func unprivileged(t *testing.T) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, which mounts for an ordinary user")
	}
	return append(slices.Clone(asUser(t)), "setpriv", "--no-new-privs")
}

// TestGiven: a process without privileges serves what root has mounted. Unmounting makes
// everything safe, and is the end of the daemon.
func TestGiven(t *testing.T) {
	wrapper := unprivileged(t)
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			dir := t.TempDir()
			device := giveMount(t, dir)
			r := commandWith(t, device, wrapper, "mount", s.source(), "/dev/fd/3", "-o", s.words(proto, "nosuid"))
			if r.Code != 0 || !strings.Contains(r.Stderr, "nosuid: the process that mounted /dev/fd/") {
				t.Fatalf("%+v", r)
			}
			again := commandWith(t, device, wrapper, "mount", s.source(), "/dev/fd/3", "-o", s.words(proto, ""))
			checkFailure(t, again, fail, "mount point /dev/fd/3 is served by a process already")
			device.Close()
			name := filepath.Join(dir, proto)
			if err := os.WriteFile(name, []byte("written"), 0o666); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(name); err != nil || string(b) != "written" {
				t.Errorf("read %q, %v", b, err)
			}
			ended := func() {}
			if known(t) {
				if r := Command(t, wrapper, "status", dir); r.Code != 0 {
					t.Errorf("status: %+v", r)
				}
				if r := Command(t, wrapper, "sync", dir); r.Code != 0 {
					t.Errorf("sync: %+v", r)
				}
				_, ended = daemon(t, &Mounted{Dir: dir, wrapper: wrapper})
			}
			if err := unix.Unmount(dir, 0); err != nil {
				t.Fatal(err)
			}
			ended()
			if b, err := os.ReadFile(filepath.Join(s.export, proto)); err != nil || string(b) != "written" {
				t.Errorf("the server has %q, %v", b, err)
			}
		})
	}
}

// known reports whether the kernel says which mount a descriptor is of.
func known(t *testing.T) bool {
	f := giveMount(t, t.TempDir())
	return fs.GivenNumber(int(f.Fd())) != ""
}

// TestGivenEnds: SIGTERM ends a daemon that may not unmount: what was written is safe, and
// the mount is dead until who has made it unmounts it.
func TestGivenEnds(t *testing.T) {
	wrapper := unprivileged(t)
	if !known(t) {
		t.Skip("this kernel does not say which mount a descriptor of /dev/fuse is of")
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	dir := t.TempDir()
	device := giveMount(t, dir)
	if r := commandWith(t, device, wrapper, "mount", s.source(), "/dev/fd/3", "-o", s.words("tcp", "")); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	device.Close()
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("written"); err != nil {
		t.Fatal(err)
	}
	pid, ended := daemon(t, &Mounted{Dir: dir, wrapper: wrapper})
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended()
	if b, err := os.ReadFile(filepath.Join(s.export, "file")); err != nil || string(b) != "written" {
		t.Errorf("the server has %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("stat on the dead mount: %v", err)
	}
}

// TestGivenBad: descriptors that cannot be served, and options that are for who mounts.
func TestGivenBad(t *testing.T) {
	wrapper := unprivileged(t)
	s := startServer(t, serverOptions{})
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	gone := t.TempDir()
	unmounted := giveMount(t, gone)
	if err := unix.Unmount(gone, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f           *os.File
		place, more string
		says        string
	}{
		{open("/dev/fuse"), "/dev/fd/3", "", "/dev/fd/3 is not mounted"},
		{unmounted, "/dev/fd/3", "", "/dev/fd/3 is not mounted, or not any more"},
		{open("/dev/null"), "/dev/fd/3", "", "/dev/fd/3 is not open on /dev/fuse"},
		{open("/dev/null"), "/dev/fd/77", "", "/dev/fd/77 is not open in this process"},
		{giveMount(t, t.TempDir()), "/dev/fd/3", "auto_unmount", "auto_unmount: /dev/fd/3 is mounted by another process"},
		{giveMount(t, t.TempDir()), "/dev/fd/3", "default_permissions", "default_permissions: /dev/fd/3 is mounted by another process"},
	} {
		checkFailure(t, commandWith(t, c.f, wrapper, "mount", s.source(), c.place, "-o", s.words("tcp", c.more)), fail, c.says)
	}
}

// TestMountFuse3: the program mount.fuse3 of libfuse mounts, gives all its privileges up,
// and starts rdmafs with what it has mounted.
func TestMountFuse3(t *testing.T) {
	program, err := exec.LookPath("mount.fuse3")
	if err != nil {
		t.Skip("needs mount.fuse3, of the package fuse3")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := execute(t, []string{program, Binary(t) + "#" + s.source(), dir, "-o", "drop_privileges," + s.words("tcp", "noresvport")})
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("written"), 0o644); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(s.export, "file")); err != nil || string(b) != "written" {
		t.Errorf("the server has %q, %v", b, err)
	}
}

// TestAutoUnmount: fusermount3 unmounts when the daemon is killed, for root and for others,
// and leaves a mount alone that has ended in order.
func TestAutoUnmount(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, name := range []string{"self", "user"} {
		t.Run(name, func(t *testing.T) {
			words, wrapper := s.words("tcp", "auto_unmount"), []string(nil)
			if name == "user" {
				wrapper = allowedOthers(t)
				words += ",allow_other" // see libfuse's issue 586
			}
			dir := userDir(t)
			m := Mount(t, s.source(), Options{Dir: dir, Words: words, Wrapper: wrapper})
			pid, ended := daemon(t, m)
			guard := childNamed(t, pid, "fusermount3")
			gone := awaitEnd(t, guard)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ended()
			gone()
			if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
				t.Errorf("still mounted, %v", err)
			}
			m = Mount(t, s.source(), Options{Dir: dir, Words: words, Wrapper: wrapper})
			pid, ended = daemon(t, m)
			gone = awaitEnd(t, childNamed(t, pid, "fusermount3"))
			m.Umount(t)
			ended()
			gone()
		})
	}
}

// allowedOthers is an ordinary user whom /etc/fuse.conf permits allow_other.
func allowedOthers(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/etc/fuse.conf")
	if err != nil || !slices.Contains(strings.Split(string(b), "\n"), "user_allow_other") {
		t.Skip("needs the line user_allow_other in /etc/fuse.conf")
	}
	return asUser(t)
}

// childNamed is the child of a process that runs a program.
func childNamed(t *testing.T, pid int, program string) int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		b, _ := os.ReadFile(name)
		for _, child := range strings.Fields(string(b)) {
			if comm, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && strings.TrimSpace(string(comm)) == program {
				n, err := strconv.Atoi(child)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatalf("process %d has no child %s", pid, program)
	return 0
}
