package mount

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

// lateServer has an address on which nobody listens until start.
type lateServer struct {
	host, export string
	tls          *nfsd.TLS
}

const latePort = 2049

func newLateServer(t *testing.T) *lateServer {
	return &lateServer{host: rocetest.Loopback(t).String(), export: t.TempDir()}
}

func (l *lateServer) at() string { return net.JoinHostPort(l.host, strconv.Itoa(latePort)) }

func (l *lateServer) start(t *testing.T) {
	t.Helper()
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: l.export, Squash: nfsd.SquashNone}}, TLS: l.tls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.ListenTCP(l.at()); err != nil {
		t.Fatal(err)
	}
}

// mounting starts rdmafs mount at dir, and returns with the first line that it says.
func (l *lateServer) mounting(t *testing.T, dir, words string) (cmd *exec.Cmd, line string) {
	t.Helper()
	return mounting(t, l.host+":"+l.export, dir, fmt.Sprintf("proto=tcp,mountport=%d,nlmport=%d,timeo=10,%s", latePort, latePort, words))
}

// mounting starts rdmafs mount at dir, and returns with the first line that it says.
func mounting(t *testing.T, source, dir, words string) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = exec.Command(Binary(t), "mount", source, dir, "-o", words)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, mounted, _ := mounttable.Find(dir); mounted {
			Command(t, nil, "umount", "-f", dir)
		}
	})
	r := bufio.NewReader(said)
	if line, err = r.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	go io.Copy(io.Discard, r) // ends with the command
	return cmd, line
}

// TestBootBeforeServer: a mount that is asked for before its server is there is made when
// it comes, whether connections are refused until then or not answered.
func TestBootBeforeServer(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{false: "refused", true: "silent"}[silent], func(t *testing.T) {
			l := newLateServer(t)
			var mute net.Listener
			if silent {
				var err error
				if mute, err = net.Listen("tcp", l.at()); err != nil {
					t.Fatal(err)
				}
				defer mute.Close()
			}
			dir := t.TempDir()
			cmd, line := l.mounting(t, dir, "")
			if !strings.Contains(line, "trying again for 2m0s") {
				t.Errorf("said %q", line)
			}
			if silent {
				mute.Close()
			}
			l.start(t)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if _, mounted, err := mounttable.Find(dir); !mounted || err != nil {
				t.Fatalf("mounted: %t, %v", mounted, err)
			}
			if r := Command(t, nil, "umount", dir); r.Code != 0 {
				t.Error(r.Stderr)
			}
		})
	}
}

// TestBackground: with bg the command returns with 0 after the first attempt; the mount
// comes with the server, or its process is ended.
func TestBackground(t *testing.T) {
	l := newLateServer(t)
	if err := os.WriteFile(filepath.Join(l.export, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd, line := l.mounting(t, dir, "bg")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	m := regexp.MustCompile(`bg: process (\d+) goes on trying for 166h40m0s`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("said %q", line)
	}
	if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
		t.Errorf("mounted: %t, %v", mounted, err)
	}
	changed := awaitMount(t, dir)
	l.start(t)
	changed()
	if r := Command(t, nil, "umount", dir); r.Code != 0 {
		t.Error(r.Stderr)
	}
}

// awaitMount is a function that returns when something is mounted at dir.
func awaitMount(t *testing.T, dir string) (mounted func()) {
	t.Helper()
	// No os.File: Go would poll it too, and each change is told once.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(table) })
	return func() {
		t.Helper()
		for {
			if _, is, err := mounttable.Find(dir); err != nil {
				t.Fatal(err)
			} else if is {
				return
			}
			// The table says so when it changes (proc_pid_mounts(5)).
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}}, hangMillis)
			if n == 0 || err != nil && err != unix.EINTR {
				t.Fatalf("nothing is mounted at %s: %v", dir, err)
			}
		}
	}
}

// TestMountReplacesDead: a mount whose daemon was killed is replaced when it is mounted
// again, by whomever it belongs to.
func TestMountReplacesDead(t *testing.T) {
	for name, who := range map[string][]string{"own": nil, "user": asUser(t)} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, serverOptions{mode: 0o1777})
			dir := t.TempDir()
			if who != nil {
				dir = userDir(t)
			}
			m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: who, Dir: dir})
			pid, ended := daemon(t, m)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ended()
			if r := Command(t, who, "mount", s.source(), dir, "-o", s.words("rdma", "")); r.Code != 0 {
				t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
			}
			if out, err := command(who, "touch", filepath.Join(dir, "file")).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			m.Umount(t)
			if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
				t.Errorf("something is mounted still: %v", err)
			}
		})
	}
}
