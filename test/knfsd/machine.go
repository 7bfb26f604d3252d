package knfsd

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const qemu = "qemu-system-x86_64"

// machine is a running qemu. runMachine waits for it; done is closed when it
// has ended, after err is set.
type machine struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// endWithUs has the kernel kill the command when the thread that starts it
// ends, and keeps the terminal's signals from it.
func endWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// startMachine starts qemu with the given arguments, output and inherited
// files, the first of which is descriptor 3. It borrows the files.
func startMachine(args []string, output *os.File, files []*os.File) (*machine, error) {
	m := &machine{cmd: exec.Command(qemu, args...), done: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr = output, output
	m.cmd.ExtraFiles = files
	endWithUs(m.cmd)
	started := make(chan error, 1)
	go m.runMachine(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("knfsd: %w", err)
	}
	return m, nil
}

// runMachine stays on the thread that started qemu until qemu has ended: the
// death signal is bound to that thread, not to the process.
func (m *machine) runMachine(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := m.cmd.Start()
	started <- err
	if err == nil {
		m.err = m.cmd.Wait()
	}
	close(m.done)
}

// kill ends qemu at once and waits for it.
func (m *machine) kill() {
	// The only error is that it has ended already.
	_ = m.cmd.Process.Kill()
	<-m.done
}

// exited reports, without waiting, whether qemu has ended.
func (m *machine) exited() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// stream makes a connected pair of sockets: ours, and the one that qemu gets.
func stream(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	// Non-blocking, so that closing our end wakes its reader.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}
