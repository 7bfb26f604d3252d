package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// NS is a network namespace.
type NS struct {
	file *os.File
}

// New makes a namespace whose loopback is up.
func New() (*NS, error) {
	n := new(NS)
	err := elsewhere(func() error {
		return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
	}, func() (err error) {
		if n.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return IP("link set lo up")
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network namespace: %w", err), n.Close())
	}
	return n, nil
}

// Close releases the namespace; it is removed when no process holds it.
func (n *NS) Close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}

// Path names the namespace to nsenter(1), as long as this process holds it.
func (n *NS) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// Do runs f inside the namespace.
func (n *NS) Do(f func() error) error {
	return elsewhere(func() error {
		return os.NewSyscallError("setns", unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))
	}, f)
}

// elsewhere runs f on a thread that enter has moved to another network
// namespace, and moves the thread back. A thread that cannot return ends with
// the goroutine.
func elsewhere(enter, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// IP runs iproute2's commands in the caller's namespace.
func IP(lines ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// need skips the test where there can be no namespaces.
func need(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("needs iproute2: %v", err)
	}
}

// Test makes a namespace for a test, which skips where there can be none.
func Test(t testing.TB) *NS {
	t.Helper()
	need(t)
	n, err := New()
	if err != nil {
		t.Skipf("needs the right to make network namespaces: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}
