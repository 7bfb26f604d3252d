//go:build knfsd

package knfsd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCrash ends a guest under a command: no call waits for good.
func TestCrash(t *testing.T) {
	ctx := limit(t)
	Need(t, Config{})
	g, err := Start(ctx, Config{NoServer: true, RDMA: []Service{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Run(ctx, "echo c >/proc/sysrq-trigger; sleep infinity"); !errors.Is(err, ErrGone) {
		t.Errorf("command in a guest that crashed: %v", err)
	}
	if !strings.Contains(g.Console(), "sysrq triggered crash") {
		t.Errorf("the console does not tell of it:\n%s", g.Console())
	}
	<-g.machine.done
	if err := g.Stop(); !errors.Is(err, ErrGone) {
		t.Errorf("stop of a guest that crashed: %v", err)
	}
}

// holdEnv makes this program start a guest and wait to be killed.
const holdEnv = "RDMAFS_KNFSD_TEST_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		hold()
		return
	}
	os.Exit(m.Run())
}

// hold is the other process of TestKilledOwner.
func hold() {
	g, err := Start(context.Background(), Config{NoServer: true, RDMA: []Service{}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("qemu is", g.machine.cmd.Process.Pid)
	<-g.machine.done
}

// TestKilledOwner kills a process that holds a guest: qemu ends with it.
func TestKilledOwner(t *testing.T) {
	Need(t, Config{})
	cmd := exec.CommandContext(limit(t), os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "qemu is %d", &pid); err != nil {
		t.Error(err)
	}
	qemu, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	// Killed is what it is to report.
	_ = cmd.Wait()
	if t.Failed() {
		return
	}
	defer unix.Close(qemu)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(qemu), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("qemu goes on without its owner: %v", err)
		}
		return
	}
}
