package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/posix"
)

// mute is a server that answers nothing while it is set so.
type mute struct {
	*server
	silent atomic.Bool
	// hang keeps the connection, on which nothing comes any more.
	hang bool
	// asked gets a value when a call that is not answered was received.
	asked chan struct{}
}

func startMute(t *testing.T, mode os.FileMode, hang bool) *mute {
	return startMuteOf(t, serverOptions{mode: mode}, hang)
}

func startMuteOf(t *testing.T, o serverOptions, hang bool) *mute {
	m := &mute{hang: hang, asked: make(chan struct{}, 1)}
	o.faults = &nfsd.Faults{
		Before: func(context.Context, nfsd.Event) nfsd.Action {
			if !m.silent.Load() {
				return nfsd.Proceed
			}
			select {
			case m.asked <- struct{}{}:
			default:
			}
			if m.hang {
				return nfsd.Hang
			}
			return nfsd.Drop
		},
	}
	m.server = startServer(t, o)
	t.Cleanup(func() { m.silent.Store(false) })
	return m
}

// daemon is the process that serves a mount; exited waits for its end.
func daemon(t *testing.T, m *Mounted) (pid int, exited func()) {
	t.Helper()
	r := Command(t, m.wrapper, "stats", "--json", m.Dir)
	var report struct{ PID int }
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.PID == 0 {
		t.Fatalf("stats: %v in %q", err, r.Stdout)
	}
	return report.PID, awaitEnd(t, report.PID)
}

// awaitEnd is a function that waits for the end of a process, which is there
// now.
func awaitEnd(t *testing.T, pid int) (ended func()) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() {
		t.Helper()
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(p, hangMillis)
			if err == unix.EINTR {
				continue
			}
			if n != 1 {
				t.Fatalf("the daemon goes on: %v", err)
			}
			return
		}
	}
}

// hangMillis is when something is taken to hang.
const hangMillis = 60_000

// TestForcedUmount: the server is silent, a process waits for it, another holds
// an unwritten file: umount -f and the daemon end nevertheless.
func TestForcedUmount(t *testing.T) {
	for _, who := range []struct {
		name    string
		wrapper []string
		proto   string
		hang    bool
	}{
		{"rdma", nil, "rdma", false}, {"rdma-hangs", nil, "rdma", true},
		{"tcp", nil, "tcp", false}, {"tcp-hangs", nil, "tcp", true},
		{"user", asUser(t), "rdma", true},
	} {
		t.Run(who.name, func(t *testing.T) {
			s := startMute(t, 0o1777, who.hang)
			if err := os.WriteFile(filepath.Join(s.export, "theirs"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if who.wrapper != nil {
				dir = userDir(t)
			}
			m := Mount(t, s.source(), Options{Words: s.words(who.proto, ""), Wrapper: who.wrapper, Dir: dir})
			_, exited := daemon(t, m)
			release := holdFile(t, who.wrapper, filepath.Join(dir, "mine"))
			s.silent.Store(true)
			reader := command(who.wrapper, "env", "LC_ALL=C", "cat", filepath.Join(dir, "theirs"))
			var said bytes.Buffer
			reader.Stderr = &said
			if err := reader.Start(); err != nil {
				t.Fatal(err)
			}
			<-s.asked
			r := Command(t, who.wrapper, "umount", "-f", dir)
			checkFailure(t, r, fail, "lost")
			exited()
			if err := reader.Wait(); err == nil || !strings.Contains(said.String(), "Input/output error") {
				t.Errorf("the reader ended with %v and said %q", err, said.String())
			}
			release()
			if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
				t.Errorf("still mounted (%v)", err)
			}
		})
	}
}

// command runs args through a wrapper, if any.
func command(wrapper []string, args ...string) *exec.Cmd {
	line := append(append([]string(nil), wrapper...), args...)
	return exec.Command(line[0], line[1:]...)
}

// TestForcedAfterUmount: umount waits for a server that is gone; umount -f ends
// that, though the mount is detached already.
func TestForcedAfterUmount(t *testing.T) {
	s := startMute(t, 0o755, false)
	m := s.mount(t, "rdma", "")
	_, exited := daemon(t, m)
	if err := writeBehind(filepath.Join(m.Dir, "f")); err != nil {
		t.Fatal(err)
	}
	s.silent.Store(true)
	umount := exec.Command(Binary(t), "umount", m.Dir)
	var said bytes.Buffer
	umount.Stderr = &said
	if err := umount.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.asked
	for {
		if _, mounted, err := mounttable.Find(m.Dir); err != nil {
			t.Fatal(err)
		} else if !mounted {
			break
		}
		<-s.asked
	}
	Command(t, nil, "umount", "-f", m.Dir)
	exited()
	if err := umount.Wait(); err == nil || !strings.Contains(said.String(), "not written") {
		t.Errorf("the waiting umount ended with %v and said %q", err, said.String())
	}
}

// writeBehind leaves data that no close has waited for: by a shared mapping
// that outlives its descriptor.
func writeBehind(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := f.Truncate(4096); err != nil {
		return err
	}
	rw, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(rw.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), rw.Close()); err != nil {
		return err
	}
	return errors.Join(posix.Store(b, []byte("written behind")), unix.Munmap(b))
}

// TestKillBlocked: a process that waits for a silent hard-mounted server can be
// killed, and other signals leave it waiting.
func TestKillBlocked(t *testing.T) {
	for _, c := range []struct {
		name, proto string
		hang        bool
	}{{"rdma", "rdma", false}, {"rdma-hangs", "rdma", true}, {"tcp", "tcp", false}, {"tcp-hangs", "tcp", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := startMute(t, 0o755, c.hang)
			if err := os.WriteFile(filepath.Join(s.export, "f"), make([]byte, 100_000), 0o644); err != nil {
				t.Fatal(err)
			}
			m := s.mount(t, c.proto, "")
			for _, args := range [][]string{{"cat", "f"}, {"ls", "."}, {"cp", "/bin/sh", "g"}} {
				s.silent.Store(true)
				cmd := exec.Command(args[0], args[1:]...)
				for k := range cmd.Args[1:] {
					if !filepath.IsAbs(cmd.Args[k+1]) {
						cmd.Args[k+1] = filepath.Join(m.Dir, cmd.Args[k+1])
					}
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				<-s.asked
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Errorf("%q: %v, want killed", args, err)
				}
				s.silent.Store(false)
				// What was in the channel belongs to this round.
				select {
				case <-s.asked:
				default:
				}
			}
			if _, err := os.ReadFile(filepath.Join(m.Dir, "f")); err != nil {
				t.Errorf("when the server is back: %v", err)
			}
		})
	}
}

// TestKilledDaemon: what is left of a mount whose daemon was killed says what to
// do, and a umount and a new mount find no obstacle in it.
func TestKilledDaemon(t *testing.T) {
	t.Run("dev", func(t *testing.T) { killDaemons(t, "") })
	t.Run("ring", func(t *testing.T) { killDaemons(t, "fuse=ring") })
}

func killDaemons(t *testing.T, words string) {
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, w := range [][]string{nil, asUser(t)} {
		dir := t.TempDir()
		if w != nil {
			dir = userDir(t)
		}
		o := Options{Words: s.words("rdma", words), Wrapper: w, Dir: dir}
		m := Mount(t, s.source(), o)
		pid, exited := daemon(t, m)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		exited()
		checkFailure(t, Command(t, w, "mount", s.source(), dir+"/sub", "-o", o.Words), fail, "dead", s.source(), "rdmafs umount -f "+dir)
		checkFailure(t, Command(t, w, "stats", dir), fail, "no rdmafs daemon", "dead mount of "+s.source(), "rdmafs umount "+dir)
		m.Umount(t)
		m = Mount(t, s.source(), o)
		if err := command(w, "sh", "-c", "echo x > $0/$(id -u)", dir).Run(); err != nil {
			t.Error(err)
		}
		m.Umount(t)
	}
}
