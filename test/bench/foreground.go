package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// foreground has mounts that programs serve for as long as they run, by directory.
type foreground map[string]*served

type served struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	err   error         // how, then
}

// mountLimit bounds how long a program may take to mount.
const mountLimit = 30 * time.Second

// mount runs a program until it has mounted on dir.
func (f foreground) mount(dir, program string, args ...string) error {
	s := &served{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = child()
	// The kernel tells who polls this file of changes from when it was opened.
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer table.Close()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go s.runWait()
	for deadline := time.Now().Add(mountLimit); time.Now().Before(deadline); {
		_, found, err := mounttable.Find(dir)
		if err != nil {
			return err
		}
		if found {
			f[dir] = s
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s did not mount: %v", filepath.Base(program), s.err)
		default:
		}
		// A program that ends changes nothing, so this looks again now and then.
		fds := []unix.PollFd{{Fd: int32(table.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, 100); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	return fmt.Errorf("%s did not mount within %v", filepath.Base(program), mountLimit)
}

func (s *served) runWait() {
	s.err = s.cmd.Wait()
	close(s.ended)
}

// unmount unmounts dir and waits for the program to end.
func (f foreground) unmount(dir string) error {
	s := f[dir]
	delete(f, dir)
	if err := command("fusermount3", "-u", dir); err != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
		return errors.Join(err, command("fusermount3", "-u", "-z", dir))
	}
	<-s.ended
	return s.err
}

func (f foreground) pid(dir string) (int, error) {
	if s := f[dir]; s != nil {
		return s.cmd.Process.Pid, nil
	}
	return 0, fmt.Errorf("nothing is mounted on %s", dir)
}
