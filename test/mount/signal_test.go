package mount

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// holdFile has a shell write to a file and keep it open until release.
func holdFile(t *testing.T, wrapper []string, name string) (release func()) {
	t.Helper()
	holder := command(wrapper, "sh", "-c", `exec 3>"$0"; echo unwritten >&3; echo written; read end`, name)
	input := startUntil(t, holder, "written")
	return func() {
		input.Close()
		_ = holder.Wait()
	}
}

// startUntil starts a process that prints a line and then waits for the end of
// its input, which the caller closes. It returns when the line was printed.
func startUntil(t *testing.T, cmd *exec.Cmd, word string) (input io.Closer) {
	t.Helper()
	k := startTalk(t, cmd)
	k.await(word)
	return k.in
}

// talk is with a process by lines.
type talk struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startTalk(t *testing.T, cmd *exec.Cmd) *talk {
	t.Helper()
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = cmd.Process.Kill() // if the test has not waited for its end
	})
	return &talk{t, cmd, input, bufio.NewReader(output)}
}

// await returns when the process has printed a line.
func (k *talk) await(word string) {
	k.t.Helper()
	if line, err := k.out.ReadString('\n'); err != nil || line != word+"\n" {
		k.t.Fatalf("%s said %q, %v", k.cmd, line, err)
	}
}

func (k *talk) say(word string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, word+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

// end has the process find no more input.
func (k *talk) end() { k.in.Close() }

// TestSignalAfterDetach: the daemon of a mount that was detached while a file
// was open writes everything and ends on SIGTERM, and leaves alone what was
// mounted in its place since.
func TestSignalAfterDetach(t *testing.T) {
	for _, who := range []struct {
		name    string
		wrapper []string
	}{{"root", nil}, {"user", asUser(t)}} {
		for _, again := range []bool{false, true} {
			name := who.name + "/gone"
			if again {
				name = who.name + "/replaced"
			}
			t.Run(name, func(t *testing.T) {
				s, next := startServer(t, serverOptions{mode: 0o1777}), startServer(t, serverOptions{mode: 0o1777})
				dir := t.TempDir()
				if who.wrapper != nil {
					dir = userDir(t)
				}
				old := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: who.wrapper, Dir: dir})
				pid, exited := daemon(t, old)
				release := holdFile(t, who.wrapper, filepath.Join(dir, "f"))
				defer release()
				if r := Command(t, who.wrapper, "umount", "-l", dir); r.Code != 0 {
					t.Fatal(r.Stderr)
				}
				if again {
					Mount(t, next.source(), Options{Words: next.words("rdma", ""), Wrapper: who.wrapper, Dir: dir})
				}
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				exited()
				if b, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(b) != "unwritten\n" {
					t.Errorf("on the server: %q, %v", b, err)
				}
				m, mounted, err := mounttable.Find(dir)
				if err != nil || mounted != again || mounted && m.Source != next.source() {
					t.Errorf("in its place is %+v, %v, %v", m, mounted, err)
				}
			})
		}
	}
}

// TestDetachedIsLeftAlone: commands for a mount whose daemon has died do not
// reach the daemon of one that was detached from the same place before.
func TestDetachedIsLeftAlone(t *testing.T) {
	s, next := startServer(t, serverOptions{}), startServer(t, serverOptions{})
	old := s.mount(t, "rdma", "")
	_, exited := daemon(t, old)
	release := holdFile(t, nil, filepath.Join(old.Dir, "f"))
	defer release()
	if r := Command(t, nil, "umount", "-l", old.Dir); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	pid, died := daemon(t, Mount(t, next.source(), Options{Words: next.words("rdma", ""), Dir: old.Dir}))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	died()
	checkFailure(t, Command(t, nil, "status", old.Dir), fail, "dead mount of "+next.source())
	if r := Command(t, nil, "umount", "-f", old.Dir); r.Code != 0 {
		t.Error(r.Stderr)
	}
	// Its mount is in the table no more: now the other one is meant.
	if r := Command(t, nil, "status", old.Dir); r.Code != 0 || !strings.Contains(r.Stdout, s.source()) {
		t.Errorf("status: %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	release()
	exited()
	if b, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(b) != "unwritten\n" {
		t.Errorf("on the server: %q, %v", b, err)
	}
}

// TestSignalWhenCovered: a daemon does not take down what was mounted on top of
// its mount, and says why it goes on.
func TestSignalWhenCovered(t *testing.T) {
	s, upper := startServer(t, serverOptions{}), startServer(t, serverOptions{})
	dir := t.TempDir()
	cmd := exec.Command(Binary(t), "mount", "-f", s.source(), dir, "-o", s.words("rdma", ""))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewReader(stderr)
	await := func(word string) {
		t.Helper()
		for {
			line, err := log.ReadString('\n')
			if err != nil {
				t.Fatalf("the log ended without %q", word)
			}
			if strings.Contains(line, word) {
				return
			}
		}
	}
	await("mounted")
	m := Mount(t, upper.source(), Options{Words: upper.words("rdma", ""), Dir: dir})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await("mounted on top")
	if e, ok, err := mounttable.Find(dir); !ok || err != nil || e.Source != upper.source() {
		t.Errorf("on top is %+v, %v", e, err)
	}
	m.Umount(t)
	if r := Command(t, nil, "umount", dir); r.Code != 0 {
		t.Error(r.Stderr)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}
