package main

import (
	"bytes"
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

	"github.com/rdmafs/rdmafs/internal/plain"
)

// The daemon is this program executed anew in a session of its own: RDMA
// resources do not survive a fork, and Go cannot fork without exec. readyEnv
// tells it that readyFD is a socket on which to say that the mount is usable.
const readyEnv = "_RDMAFS_READY_FD"

const readyFD = 3

// interrupts end a command, unless whoever started it has them ignored.
func interrupts() (all []os.Signal) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// daemonize starts the daemon with the same arguments and waits until the mount
// is usable or has failed. The daemon's error line is passed on. When it is
// interrupted there is no mount: it ends the daemon and waits for that, and a
// daemon that finds it gone ends by itself. A second signal ends it at once.
func daemonize() error {
	self, err := os.Executable()
	if err != nil {
		return withCode(exitSystem, err)
	}
	conn, w, err := readySocket()
	if err != nil {
		return withCode(exitSystem, err)
	}
	defer conn.Close()
	var errs bytes.Buffer
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), readyEnv+"=1")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	errR, errW, err := os.Pipe()
	if err != nil {
		w.Close()
		return withCode(exitSystem, err)
	}
	defer errR.Close()
	cmd.Stderr = errW
	interrupted := make(chan os.Signal, 1)
	if those := interrupts(); len(those) > 0 {
		signal.Notify(interrupted, those...)
	}
	err = cmd.Start()
	w.Close()
	errW.Close()
	if err != nil {
		return withCode(exitSystem, fmt.Errorf("cannot start the daemon: %w", err))
	}
	ready := make(chan error, 1)
	go runReady(conn, ready)
	select {
	case err = <-ready:
	case <-interrupted:
		signal.Stop(interrupted)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		return withCode(exitInterrupted, errors.New("interrupted: not mounted"))
	}
	if err == nil {
		passOn(errR)
		return nil // it goes on alone; the process is init's from here
	}
	// The connection ended without a word: the daemon has failed.
	_, _ = io.Copy(&errs, errR)
	err = cmd.Wait()
	code := exitFail
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		code = exit.ExitCode()
	}
	text := strings.TrimPrefix(strings.TrimSpace(errs.String()), "rdmafs: ")
	if text == "" {
		text = fmt.Sprintf("the daemon ended without a word (%v)", err)
	}
	return withCode(code, errors.New(text))
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

// runReady gives ready nil when the daemon says that the mount is usable.
func runReady(conn net.Conn, ready chan<- error) {
	_, err := conn.Read(make([]byte, 1))
	ready <- err
}

// passOn writes what the daemon has said so far to standard error. Others may
// hold the pipe open, so its end is not waited for.
func passOn(r *os.File) {
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	b := make([]byte, 4096)
	n := 0
	// Package os has made the pipe non-blocking.
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), b)
		return true
	})
	_, _ = os.Stderr.Write(b[:max(0, n)])
}

// tellParent has the waiting parent print a line, before tellReady. In the
// foreground it does nothing.
func tellParent(line string) {
	if isDaemon() {
		plain.Fprintf(os.Stderr, "rdmafs: %s\n", line)
	}
}

// cutOff leaves the terminal and the directory that the daemon was started
// from.
func cutOff() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	_ = os.Chdir("/")
}
