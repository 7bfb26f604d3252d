package mount

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestInterruptedMount: a mount command that is interrupted, or killed, while
// the server sits on its MOUNT call leaves neither mount nor daemon, also when
// the server goes on.
func TestInterruptedMount(t *testing.T) {
	for _, c := range []struct {
		sig   syscall.Signal
		group bool // a terminal signals all that the command has started
	}{{syscall.SIGINT, false}, {syscall.SIGINT, true}, {syscall.SIGTERM, false}, {syscall.SIGHUP, false}, {syscall.SIGHUP, true}, {syscall.SIGKILL, false}} {
		sig := c.sig
		t.Run(fmt.Sprintf("%s,group=%t", unix.SignalName(sig), c.group), func(t *testing.T) {
			came, release := make(chan struct{}), make(chan struct{})
			var asked atomic.Bool
			s := startServer(t, serverOptions{faults: &nfsd.Faults{
				Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
					if e.Prog == wire.MountProgram && e.Proc == wire.MountMnt && asked.CompareAndSwap(false, true) {
						close(came)
						select {
						case <-release:
						case <-ctx.Done():
						}
					}
					return nfsd.Proceed
				},
			}})
			dir := t.TempDir()
			cmd := exec.Command(Binary(t), "mount", s.source(), dir, "-o", s.words("rdma", ""))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var said bytes.Buffer
			cmd.Stderr = &said
			// A command that was started with SIGHUP ignored goes on ignoring it; one
			// that we catch is not ignored there.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
			defer signal.Reset(syscall.SIGHUP)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, mounted, _ := mounttable.Find(dir); mounted {
					Command(t, nil, "umount", "-f", dir)
				}
			})
			<-came
			ended := awaitEnd(t, childOf(t, cmd.Process.Pid))
			whom := cmd.Process.Pid
			if c.group {
				whom = -whom
			}
			if err := syscall.Kill(whom, sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if sig != syscall.SIGKILL {
				r := Result{Code: cmd.ProcessState.ExitCode(), Stderr: said.String()}
				checkFailure(t, r, interrupted, "interrupted", "not mounted")
			}
			close(release)
			ended()
			if _, mounted, err := mounttable.Find(dir); mounted || err != nil {
				t.Errorf("mounted all the same (%v)", err)
			}
		})
	}
}

// childOf is the only child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	var children []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, strings.Fields(string(b))...)
	}
	if len(children) != 1 {
		t.Fatalf("process %d has children %q", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}
