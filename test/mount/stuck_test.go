package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// TestMountOntoSilent: where a mount waits for a server that is gone, a second
// one on its mount point, below it, or by a symbolic link does not wait too: it
// says what is there and how to end it, and that ends it.
func TestMountOntoSilent(t *testing.T) {
	for _, who := range []struct {
		name    string
		wrapper []string
	}{{"root", nil}, {"user", asUser(t)}} {
		t.Run(who.name, func(t *testing.T) {
			s, other := startMute(t, 0o1777, true), startServer(t, serverOptions{mode: 0o1777})
			if err := os.Mkdir(filepath.Join(s.export, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			dir, link := userDir(t), filepath.Join(userDir(t), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Remove(link) })
			m := Mount(t, s.source(), Options{Words: s.words("rdma", "actimeo=0"), Wrapper: who.wrapper, Dir: dir})
			_, exited := daemon(t, m)
			s.silent.Store(true)
			var all sync.WaitGroup
			for _, at := range []string{dir, filepath.Join(dir, "sub"), link, filepath.Join(link, "sub")} {
				all.Go(func() {
					r := Command(t, who.wrapper, "mount", other.source(), at, "-o", other.words("rdma", ""))
					checkFailure(t, r, fail, at, "does not answer", s.source(), "rdmafs umount -f "+dir)
				})
			}
			all.Go(func() {
				r := Command(t, who.wrapper, "umount", filepath.Join(dir, "sub"))
				checkFailure(t, r, usage, "does not answer", "rdmafs umount -f "+dir)
			})
			all.Wait()
			if r := Command(t, who.wrapper, "status", link); r.Code != 0 || !strings.Contains(r.Stdout, s.source()) {
				t.Errorf("status by a link: %d, %s%s", r.Code, r.Stdout, r.Stderr)
			}
			if r := Command(t, who.wrapper, "umount", "-f", dir); r.Code != 0 {
				t.Error(r.Stderr)
			}
			exited()
		})
	}
}

// TestStoppedDaemon: a daemon that exists and does not answer keeps no command
// waiting. Only umount -f unmounts then.
func TestStoppedDaemon(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "actimeo=0")
	pid, exited := daemon(t, m)
	// A shell whose working directory does not answer any more.
	inside := exec.Command("sh", "-c", `cd "$0"; echo there; read go; exec "$1" status .`, m.Dir, Binary(t))
	var said strings.Builder
	inside.Stderr = &said
	in := startUntil(t, inside, "there")
	stop(t, pid)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	in.Close()
	var all sync.WaitGroup
	all.Go(func() {
		if err := inside.Wait(); err == nil || !strings.Contains(said.String(), "does not answer") {
			t.Errorf("status from inside: %v, %q", err, said.String())
		}
	})
	for command, says := range map[string]string{"status": "umount -f", "stats": "umount -f", "umount": "not unmounted", "mount": "umount -f"} {
		all.Go(func() {
			args := []string{command, m.Dir}
			if command == "mount" {
				args = []string{command, s.source(), m.Dir, "-o", s.words("rdma", "timeo=10")}
			}
			checkFailure(t, Command(t, nil, args...), fail, "does not answer", m.Dir, says)
		})
	}
	all.Wait()
	if _, mounted, err := mounttable.Find(m.Dir); !mounted || err != nil {
		t.Fatalf("unmounted (%v)", err)
	}
	for range 2 { // the second has nothing to unmount
		checkFailure(t, Command(t, nil, "umount", "-f", m.Dir), fail, "unmounted, but", "kill -9")
	}
	if _, mounted, err := mounttable.Find(m.Dir); mounted || err != nil {
		t.Errorf("still mounted (%v)", err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	exited()
}

// stop stops a process, and returns when none of its threads runs any more: the
// others go on until the one that takes the signal has come to run.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for running := true; running; {
		running = false
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d has threads %q, %v", pid, threads, err)
		}
		for _, name := range threads {
			// The state is behind the name, which is in brackets.
			b, err := os.ReadFile(name)
			if _, rest, found := strings.Cut(string(b), ") "); err == nil && found && !strings.HasPrefix(rest, "T") {
				running = true
				time.Sleep(time.Millisecond)
			}
		}
	}
}
