package mount

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// insideSync is the file that the test binary writes to as a process of its own.
// This one starts others, and each of them closes what it inherits, which asks
// for what was written, too.
const insideSync = "RDMAFS_TEST_SYNC"

// TestSyncCommand: "rdmafs sync" returns when what an open file was given is on
// the server's stable storage, and says what could not be written.
func TestSyncCommand(t *testing.T) {
	if name := os.Getenv(insideSync); name != "" {
		writeLines(t, name)
		return
	}
	var full atomic.Bool
	s := startServer(t, serverOptions{lossy: true, faults: &nfsd.Faults{
		Sync: func() error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		},
	}})
	m := s.mount(t, "rdma", "")
	writer := exec.Command(os.Args[0], "-test.run=^TestSyncCommand$")
	writer.Env = append(os.Environ(), insideSync+"="+filepath.Join(m.Dir, "f"))
	words := startTalk(t, writer)
	write := func() {
		t.Helper()
		words.say("line")
		words.await("written")
	}
	write()
	if r := Command(t, nil, "sync", m.Dir); r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, %q", r.Code, r.Stderr)
	}
	if b, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || string(b) != "line\n" {
		t.Errorf("on the server: %q, %v", b, err)
	}
	full.Store(true)
	write()
	checkFailure(t, Command(t, nil, "sync", m.Dir), fail, m.Dir, "lost", "no space left")
	full.Store(false)
	words.end()
	if err := writer.Wait(); err != nil {
		t.Error(err)
	}
	m.Umount(t)
	checkFailure(t, Command(t, nil, "sync", m.Dir), fail, "nothing is mounted there")
	checkFailure(t, Command(t, nil, "sync"), usage, "MOUNTPOINT")
}

// writeLines writes each line of its input to a file, and acknowledges it.
func writeLines(t *testing.T, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		fmt.Println("written")
	}
	_ = f.Close() // may return the error of lost data
}

// TestSyncOfUser: it finds an ordinary user's daemon, for that user and for
// root.
func TestSyncOfUser(t *testing.T) {
	wrapper := asUser(t)
	s := startServer(t, serverOptions{mode: 0o1777})
	m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: wrapper, Dir: userDir(t)})
	for _, w := range [][]string{wrapper, nil} {
		if r := Command(t, w, "sync", m.Dir); r.Code != 0 || r.Stderr != "" {
			t.Errorf("exit code %d, %q", r.Code, r.Stderr)
		}
	}
}
