package mount

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKilledWhileNotifying: the daemon is killed while a notification waits in the
// kernel for a page that is being read from a server which does not answer. The thread
// that waits keeps the process and the connection alive; umount -f ends them, and so
// all who wait for the mount.
func TestKilledWhileNotifying(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can see what a thread does in the kernel")
	}
	s, f := startFrozen(t)
	defer close(f.thaw)
	m := s.mount(t, "rdma", "actimeo=0")
	t.Cleanup(func() { _ = unix.Unmount(m.Dir, unix.MNT_FORCE|unix.MNT_DETACH) })
	pid, exited := daemon(t, m)
	var waiting []*exec.Cmd
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, cmd)
	}
	run("dd", "if="+filepath.Join(m.Dir, "frozen"), "of=/dev/null", "bs=4k", "count=1")
	f.arrivals(t, 1)
	// The next attributes show that the file has changed; whoever asks for them
	// waits until the kernel has dropped the pages.
	if err := os.Chtimes(filepath.Join(s.export, "frozen"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	run("stat", filepath.Join(m.Dir, "frozen"))
	awaitInKernel(t, pid, "fuse_reverse_inval_inode")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := Command(t, nil, "umount", "-f", m.Dir); r.Code != 0 {
		t.Errorf("umount -f: %+v", r)
	}
	exited()
	within(t, func() {
		for _, cmd := range waiting {
			_ = cmd.Wait() // it may have been told of an error
		}
	})
}

// awaitInKernel waits until a thread of a process is in a function of the kernel.
func awaitInKernel(t *testing.T, pid int, function string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", pid))
		if len(threads) == 0 {
			t.Skip("this kernel does not show what threads do in it")
		}
		for _, name := range threads {
			if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(function)) {
				return
			}
		}
	}
	t.Fatalf("no thread of the daemon is in %s", function)
}
