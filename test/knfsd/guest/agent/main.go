// Command agent runs in the guest and executes shell commands for the harness,
// several at once, over the guest's only virtio serial port.
//
// It owns the port and the processes it started.  Per command there is one
// goroutine, runCommand; the main goroutine reads frames.  The two locks of
// agent are never held together.  It ends on PowerOff or when the harness is
// gone, and with it the guest ends.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd/guest/ctl"
)

// outputGrace is for how long output is still read when a command has ended
// but left a process that holds its output open.
const outputGrace = 2 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run() error {
	name, err := port()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	a := &agent{out: f, running: make(map[uint32]*os.Process)}
	if err := a.send(ctl.Frame{Kind: ctl.Hello}); err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		frame, err := ctl.Read(in)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		switch frame.Kind {
		case ctl.Start:
			// Not joined: the process's end ends it, and what still runs
			// at power off is to be cut off.
			go a.runCommand(frame.ID, string(frame.Body))
		case ctl.Kill:
			a.kill(frame.ID)
		case ctl.PowerOff:
			return nil
		default:
			return fmt.Errorf("unexpected frame %d", frame.Kind)
		}
	}
}

// port waits for the serial port to appear and names its device file.
func port() (string, error) {
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer syscall.Close(watch)
	// Watching starts before looking, so that an arrival in between wakes us.
	if _, err := syscall.InotifyAddWatch(watch, "/dev", syscall.IN_CREATE); err != nil {
		return "", err
	}
	events := make([]byte, 4096)
	for {
		found, err := filepath.Glob("/dev/vport*p1")
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
		if _, err := syscall.Read(watch, events); err != nil && !errors.Is(err, syscall.EINTR) {
			return "", err
		}
	}
}

type agent struct {
	sending sync.Mutex // one frame at a time
	out     *os.File

	mu      sync.Mutex
	running map[uint32]*os.Process
}

func (a *agent) send(f ctl.Frame) error {
	b, err := ctl.Append(nil, f)
	if err != nil {
		return err
	}
	a.sending.Lock()
	defer a.sending.Unlock()
	_, err = a.out.Write(b)
	return err
}

// output is what a command writes to: each piece becomes one frame.
type output struct {
	agent *agent
	id    uint32
}

func (o output) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, ctl.MaxBody)
		if err := o.agent.send(ctl.Frame{Kind: ctl.Output, ID: o.id, Body: p[done : done+n]}); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

func (a *agent) runCommand(id uint32, command string) {
	cmd := exec.Command("/bin/bash", "-c", command)
	out := output{a, id}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = outputGrace
	last := ctl.Frame{Kind: ctl.Exit, ID: id}
	if err := a.start(id, cmd); err != nil {
		last.Kind, last.Body = ctl.Failed, []byte(err.Error())
	} else {
		err := cmd.Wait()
		a.forget(id)
		var exit *exec.ExitError
		switch {
		case err == nil, errors.Is(err, exec.ErrWaitDelay):
			last.Body = ctl.AppendCode(nil, 0)
		case errors.As(err, &exit):
			last.Body = ctl.AppendCode(nil, exitCode(exit))
		default:
			last.Kind, last.Body = ctl.Failed, []byte(err.Error())
		}
	}
	if err := a.send(last); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
	}
}

// exitCode is the exit code by which the shell reports a signal.
func exitCode(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return e.ExitCode()
}

func (a *agent) start(id uint32, cmd *exec.Cmd) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	a.running[id] = cmd.Process
	return nil
}

func (a *agent) forget(id uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, id)
}

// kill ends the command's whole process group; its Exit frame still comes.
func (a *agent) kill(id uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.running[id]; p != nil {
		// A process that has just ended needs no more killing.
		_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	}
}
