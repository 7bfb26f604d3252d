package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/plain"
)

// The daemon is this program executed anew in a session of its own: RDMA
// resources do not survive a fork, and Go cannot fork without exec. readyEnv
// tells it the descriptor on which to say that the mount is usable.
const readyEnv = "_RDMAFS_READY_FD"

const readyFD = 3

// readyFile is that descriptor, nil when this is not the daemon.
var readyFile = sync.OnceValue(func() *os.File {
	if os.Getenv(readyEnv) == "" {
		return nil
	}
	os.Unsetenv(readyEnv)
	unix.CloseOnExec(readyFD)
	return os.NewFile(readyFD, "ready")
})

// daemonize starts the daemon with the same arguments and waits until the mount
// is usable or has failed. The daemon's error line is passed on.
func daemonize() error {
	self, err := os.Executable()
	if err != nil {
		return withCode(exitSystem, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return withCode(exitSystem, err)
	}
	defer r.Close()
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
	err = cmd.Start()
	w.Close()
	errW.Close()
	if err != nil {
		return withCode(exitSystem, fmt.Errorf("cannot start the daemon: %w", err))
	}
	if _, err := r.Read(make([]byte, 1)); err == nil {
		passOn(errR)
		return nil // it goes on alone; the process is init's from here
	}
	// The pipe ended without a word: the daemon has failed.
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
	if readyFile() != nil {
		plain.Fprintf(os.Stderr, "rdmafs: %s\n", line)
	}
}

// tellReady lets the waiting parent go, and cuts the daemon off from its
// terminal. In the foreground it does nothing.
func tellReady() {
	f := readyFile()
	if f == nil {
		return
	}
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	_ = os.Chdir("/")
	_, _ = f.Write([]byte{1})
	f.Close()
}

// capturingStderr runs f and returns what the programs it started wrote to
// standard error, as one line: fusermount3 says there why it refused.
func capturingStderr(f func() error) (words string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", f()
	}
	text := make(chan string)
	go runCapture(r, text)
	saved := os.Stderr
	os.Stderr = w
	err = f()
	os.Stderr = saved
	w.Close()
	return strings.TrimSpace(oneLine(errors.New(<-text))), err
}

// runCapture reads r to its end and gives text its beginning.
func runCapture(r *os.File, text chan<- string) {
	defer r.Close()
	b, _ := io.ReadAll(io.LimitReader(r, 4096))
	_, _ = io.Copy(io.Discard, r)
	text <- string(b)
}
