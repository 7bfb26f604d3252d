package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// readyEnvironment is set for the daemon, whose readyFD then is a socket on which to
// report that the mount is usable.
const (
	readyEnvironment = "_RDMAFS_READY_FD"
	readyFD          = 3
)

// KeptFD is the first descriptor of what Start has the daemon keep.
const KeptFD = readyFD + 1

// The daemon says lines: readyLine, or a note, which has at least one character and
// fewer than maxNote bytes.
const (
	readyLine = "\n"
	maxNote   = 8192
)

// ErrInterrupted: a signal ended Start before the mount was usable. There is none.
var ErrInterrupted = errors.New("interrupted: not mounted")

// EndedError says that the daemon ended before its mount was usable.
type EndedError struct {
	Code int    // its exit code; 0 when it was killed
	Text string // what it said, without the program's name
}

func (e *EndedError) Error() string { return e.Text }

// interrupts end a command, unless the process that started it ignores them.
func interrupts() (all []os.Signal) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// Start starts the daemon, this program with args, and returns when the mount is usable
// or has failed. note is called with each Note of the daemon, from another goroutine,
// but not after Start has returned. When Start is interrupted there is no mount: it
// ends the daemon and waits for that, and a daemon whose parent ends for any other reason
// ends by itself. A second signal ends this process at once. Errors are
// *EndedError, ErrInterrupted, and those of starting a process.
//
// The daemon has copies of keep, from KeptFD on.
//
// The daemon begins in this process' process group, by which the kernel's autofs knows
// who mounts for an automounter: others wait at the mount point until it is mounted.
func Start(args []string, note func(line string), keep ...*os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	conn, w, err := readySocket()
	if err != nil {
		return err
	}
	defer conn.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		w.Close()
		return err
	}
	defer errR.Close()
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "rdmafs" // the program may have been called by another name
	cmd.Env = append(os.Environ(), readyEnvironment+"=1")
	cmd.ExtraFiles = append([]*os.File{w}, keep...)
	cmd.Stderr = errW
	interrupted := make(chan os.Signal, 1)
	if those := interrupts(); len(those) > 0 {
		signal.Notify(interrupted, those...)
	}
	err = cmd.Start()
	w.Close()
	errW.Close()
	if err != nil {
		return fmt.Errorf("cannot start the daemon: %w", err)
	}
	ready := make(chan error, 1)
	go runReady(conn, note, ready)
	stop := func() error {
		signal.Stop(interrupted)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		return ErrInterrupted
	}
	select {
	case err = <-ready:
	case <-interrupted:
		err = stop()
		<-ready
		return err
	}
	if err == nil {
		return nil // it goes on alone; the process is init's from here
	}
	select {
	case <-interrupted: // what the daemon ran got the terminal's signal, too
		return stop()
	default:
	}
	// The connection ended without a word: the daemon has failed.
	said, _ := io.ReadAll(errR)
	return ended(cmd.Wait(), string(said))
}

// ended is the error of a daemon that has ended with what Wait returned.
func ended(err error, said string) *EndedError {
	e := &EndedError{Text: strings.TrimPrefix(strings.TrimSpace(said), "rdmafs: ")}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		e.Code = max(0, exit.ExitCode())
	}
	if e.Text == "" {
		e.Text = fmt.Sprintf("the daemon ended without a word (%v)", err)
	}
	return e
}

// readySocket is two connected sockets: conn for this process, w for the daemon.
func readySocket() (conn net.Conn, w *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "ready"), os.NewFile(uintptr(fds[1]), "ready")
	defer r.Close()
	if conn, err = net.FileConn(r); err != nil { // a copy
		w.Close()
		return nil, nil, err
	}
	return conn, w, nil
}

// runReady gives ready nil when the daemon says that the mount is usable, and note
// what it says before.
func runReady(conn net.Conn, note func(string), ready chan<- error) {
	said := bufio.NewReaderSize(conn, maxNote)
	for {
		line, err := said.ReadSlice('\n')
		if err != nil || len(line) == len(readyLine) {
			ready <- err
			return
		}
		note(string(line[:len(line)-1]))
	}
}
