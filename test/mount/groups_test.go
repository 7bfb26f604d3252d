package mount

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// teamFile makes a file on the server that only a group may read, besides
// root.
func teamFile(t *testing.T, s *server, group int) (name string) {
	t.Helper()
	file := filepath.Join(s.export, "team")
	if err := os.WriteFile(file, []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 0, group); err != nil {
		t.Fatal(err)
	}
	return "team"
}

// TestDroppedGroups: a process that leaves a group loses what the group may, at
// once.
func TestDroppedGroups(t *testing.T) {
	const env, group = "RDMAFS_TEST_DROP_GROUPS", 4711
	if file := os.Getenv(env); file != "" {
		dropGroups(t, file, group)
		return
	}
	s := startServer(t, serverOptions{})
	m := sharedMount(t, s, "tcp", "allow_other,actimeo=600")
	file := filepath.Join(m.Dir, teamFile(t, s, group))
	cmd := exec.Command(os.Args[0], "-test.run=^TestDroppedGroups$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// dropGroups is the process that does so, as an ordinary user who can become
// root again to change groups.
func dropGroups(t *testing.T, file string, group int) {
	become := func(uid int, groups ...int) {
		t.Helper()
		if err := syscall.Setresuid(-1, 0, -1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setgroups(groups); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setresuid(-1, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Setresgid(65534, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		become(65534, group)
		if _, err := os.ReadFile(file); err != nil {
			t.Errorf("in the group: %v", err)
		}
		become(65534)
		if _, err := os.ReadFile(file); !os.IsPermission(err) {
			t.Errorf("out of the group: %v, want a refusal", err)
		}
	}
}

// outsideMount mounts with a daemon in a pid namespace of its own. said gets its
// log lines once ended.
func outsideMount(t *testing.T, s *server, words string) (dir string, ended func() []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a pid namespace")
	}
	dir = t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", Binary(t), "mount", "-f", s.source(), dir, "-o", s.words("tcp", words))
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mounted := make(chan struct{})
	var lines []string
	var read sync.WaitGroup
	read.Go(func() {
		var once sync.Once
		defer once.Do(func() { close(mounted) })
		for r := bufio.NewScanner(log); r.Scan(); {
			lines = append(lines, r.Text())
			if strings.Contains(r.Text(), "mounted "+s.source()) {
				once.Do(func() { close(mounted) })
			}
		}
	})
	ended = sync.OnceValue(func() []string {
		if r := Command(t, nil, "umount", dir); r.Code != 0 {
			t.Errorf("umount: %s", r.Stderr)
			Command(t, nil, "umount", "-f", dir)
			cmd.Process.Kill()
		}
		read.Wait()
		cmd.Wait()
		return lines
	})
	t.Cleanup(func() { ended() })
	<-mounted
	if _, ok, err := mounttable.Find(dir); !ok || err != nil {
		t.Fatalf("not mounted (%v): %q", err, lines)
	}
	return dir, ended
}

// TestOutsidePIDNamespace: processes that the daemon's pid namespace does not
// contain have no supplementary groups, and work otherwise.
func TestOutsidePIDNamespace(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	dir, ended := outsideMount(t, s, "allow_other")
	team := filepath.Join(dir, teamFile(t, s, 4711))
	for _, c := range []struct {
		who []string
		ok  bool
	}{{[]string{"--regid=65534", "--groups=4711"}, false}, {[]string{"--regid=4711", "--clear-groups"}, true}} {
		who := append([]string{"setpriv", "--reuid=65534"}, c.who...)
		if out, err := command(who, "cat", team).CombinedOutput(); (err == nil) != c.ok {
			t.Errorf("cat as a member by %q: %v: %s", c.who, err, out)
		}
	}
	Exercise(t, dir)

	// A file that was changed elsewhere, opened by many at once that come
	// without a name.
	theirs := filepath.Join(s.export, "theirs")
	if err := os.WriteFile(theirs, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for round := range 5 {
		if err := os.WriteFile(theirs, []byte(strings.Repeat("more", round+1)), 0o644); err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
				if err != nil {
					failed.Add(1)
					return
				}
				unix.Close(fd)
			})
		}
		all.Wait()
		if n := failed.Load(); n > 0 {
			t.Errorf("%d of 64 opens by /proc/self/fd failed", n)
		}
	}
	f.Close()
	said := 0
	lines := ended()
	for _, l := range lines {
		if strings.Contains(l, "pid namespace") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the log says %d times that groups cannot be seen: %q", said, lines)
	}
}

// TestKilledOutside: a process that the daemon's pid namespace does not contain
// and that waits for a silent server can be killed.
func TestKilledOutside(t *testing.T) {
	s := startMute(t, 0o755, true)
	dir, _ := outsideMount(t, s.server, "noac,timeo=50")
	if err := os.WriteFile(filepath.Join(s.export, "theirs"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.silent.Store(true)
	cmd := exec.Command("cat", filepath.Join(dir, "theirs"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.asked
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd.Process.Kill()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Poll(p, hangMillis)
	}
	if n != 1 || err != nil {
		t.Errorf("a killed process goes on waiting (%v)", err)
	}
	s.silent.Store(false)
	cmd.Wait()
}

// TestManyGroups: of more groups than a call carries, those that decide are sent.
func TestManyGroups(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := sharedMount(t, s, "tcp", "allow_other")
	const deep = "a/b/file"
	if err := os.MkdirAll(filepath.Join(s.export, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.export, deep), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []string
	for g := 7001; g <= 7040; g++ {
		all = append(all, fmt.Sprint(g))
	}
	// Each step belongs to another group, none of them among the first.
	for _, f := range []struct {
		name  string
		mode  os.FileMode
		group int
	}{{"a", 0o710, 7020}, {"a/b", 0o770, 7030}, {deep, 0o660, 7040}} {
		name := filepath.Join(s.export, f.name)
		if err := os.Chown(name, 0, f.group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	member := []string{"setpriv", "--reuid=5001", "--regid=5001", "--groups=" + strings.Join(all, ",")}
	for range 2 { // the second time by what is remembered of the user's rights
		run(t, member, "sh", "-ec", `cd "$1"; cat a/b/file; echo y >>a/b/file; echo z >a/b/own; chgrp 7035 a/b/own; mv a/b/own a/b/moved; chgrp 7025 a/b/moved; rm a/b/moved; test -w a/b/file; ls a/b`, "sh", m.Dir)
	}
	stranger := []string{"setpriv", "--reuid=5001", "--regid=5001", "--groups=" + strings.Join(all[:19], ",")}
	if out, err := command(stranger, "cat", filepath.Join(m.Dir, deep)).CombinedOutput(); err == nil {
		t.Errorf("a user in none of the groups reads %q", out)
	}
}
