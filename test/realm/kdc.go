package realm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kdc is a running KDC. ended is closed when it has ended, after err is set;
// read when all that it has written is in lines.
type kdc struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
	read  chan struct{}

	mu    sync.Mutex
	lines []string
}

// startKDC starts the KDC and waits until it serves.
func (r *Realm) startKDC() error {
	path, err := program("krb5kdc")
	if err != nil {
		return err
	}
	k := &kdc{cmd: r.command(path, "-n", "-r", Name, "-P", r.Path("kdc.pid")),
		ended: make(chan struct{}), read: make(chan struct{})}
	k.cmd.Env = r.Env()
	// A KDC must not outlive a test that is killed.
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, w, err := os.Pipe()
	if err != nil {
		return err
	}
	k.cmd.Stderr = w
	started := make(chan error, 1)
	go k.runKDC(started)
	if err := errors.Join(<-started, w.Close()); err != nil {
		return errors.Join(err, out.Close())
	}
	ready := make(chan struct{})
	go k.runLog(out, ready)
	guard := time.AfterFunc(runTimeout, func() { _ = k.cmd.Process.Kill() })
	defer guard.Stop()
	select {
	case <-ready:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kdc = k
		return nil
	case <-k.ended:
		<-k.read
		return fmt.Errorf("krb5kdc ended: %v\n%s", k.err, strings.Join(k.log(), "\n"))
	}
}

// runKDC stays on the thread that starts the KDC until the KDC has ended: the
// death signal is bound to that thread.
func (k *kdc) runKDC(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := k.cmd.Start()
	started <- err
	if err == nil {
		k.err = k.cmd.Wait()
	}
	close(k.ended)
}

// runLog reads what the KDC writes, and closes ready when it serves.
func (k *kdc) runLog(out *os.File, ready chan<- struct{}) {
	defer close(k.read)
	defer out.Close()
	in := bufio.NewScanner(out)
	for serves := false; in.Scan(); {
		k.mu.Lock()
		k.lines = append(k.lines, in.Text())
		k.mu.Unlock()
		if !serves && strings.Contains(in.Text(), "commencing operation") {
			serves = true
			close(ready)
		}
	}
}

func (k *kdc) log() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.lines...)
}

// StopKDC ends the KDC, if it runs: nobody gets a ticket any more.
func (r *Realm) StopKDC() {
	r.mu.Lock()
	k := r.kdc
	r.kdc = nil
	r.mu.Unlock()
	if k == nil {
		return
	}
	_ = k.cmd.Process.Kill() // the only error is that it has ended already
	<-k.ended
	<-k.read
	if r.t.Failed() {
		r.t.Logf("log of the KDC:\n%s", strings.Join(k.log(), "\n"))
	}
}

// StartKDC starts the KDC again, at the same port.
func (r *Realm) StartKDC() {
	r.t.Helper()
	if err := r.startKDC(); err != nil {
		r.t.Fatal(err)
	}
}
