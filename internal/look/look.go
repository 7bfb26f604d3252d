package look

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// environment has, in the process that looks, the path.
const environment = "_RDMAFS_LOOK"

// Child looks for a path and reports true if this process was started by Path.
// main calls it before anything else, and then ends.
func Child() bool {
	path, is := os.LookupEnv(environment)
	if is {
		lookFor(path, os.Stdout)
	}
	return is
}

// Seen is what there is to know of a path.
type Seen struct {
	At    string // the last that was touched; free of symbolic links in the end
	Found bool   // At is where the path leads
	Dir   bool
	Errno syscall.Errno // why At or what it is could not be found out
}

// Timeout is how long what is asked of a path may take.
const Timeout = 10 * time.Second

// ErrSilent: nobody answers for Seen.At.
var ErrSilent = errors.New("does not answer")

// Path finds out, within Timeout, where an absolute path leads and, unless the
// name will do, what is there. With ErrSilent, too, it returns what it has seen.
func Path(path string, name bool) (s Seen, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return s, err
	}
	defer r.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), environment+"="+path)
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return s, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	_ = r.SetReadDeadline(time.Now().Add(Timeout))
	steps := bufio.NewReader(r)
	for !s.Found || !name {
		step, err := steps.ReadString(0)
		if errors.Is(err, io.EOF) {
			return s, cmd.Wait()
		}
		if err != nil {
			err = ErrSilent
		} else if err = s.take(strings.TrimSuffix(step, "\x00")); err == nil {
			continue
		}
		abandon(cmd.Process)
		return s, err
	}
	abandon(cmd.Process)
	return s, nil
}

// abandon kills a process and does not wait for its end: it may be blocked in a
// system call that no signal interrupts.
func abandon(p *os.Process) {
	_ = p.Kill()
	_ = p.Release()
}

// take reads a step that lookFor has reported.
func (s *Seen) take(step string) error {
	if at, is := strings.CutPrefix(step, "at "); is {
		s.At = at
		return nil
	}
	_, err := fmt.Sscan(step, &s.Found, &s.Dir, (*uintptr)(&s.Errno))
	return err
}

// lookFor is the other process: it reports each step before and after it is made.
func lookFor(path string, to io.Writer) {
	s := Seen{}
	report := func() { fmt.Fprintf(to, "at %s\x00%t %t %d\x00", s.At, s.Found, s.Dir, uintptr(s.Errno)) }
	s.walk(path, report)
	report()
}

// walk follows a path, and may block for ever. It calls before ahead of each system
// call on s.At.
func (s *Seen) walk(path string, before func()) {
	s.At = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		up := s.At
		s.At = filepath.Join(up, name)
		if name == ".." {
			continue
		}
		before()
		// That a mount point is no link is known without asking its file system.
		target, err := os.Readlink(s.At)
		if errors.Is(err, syscall.EINVAL) {
			continue
		}
		if links++; err == nil && links > maxLinks {
			err = syscall.ELOOP
		}
		if err != nil {
			s.fail(err)
			return
		}
		rest = append(strings.Split(target, "/"), rest...)
		if s.At = up; filepath.IsAbs(target) {
			s.At = "/"
		}
	}
	s.Found = true
	before()
	// Cached attributes would not show whether the file system answers, and an
	// automount must not be set off.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, s.At, unix.AT_STATX_FORCE_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st); err != nil {
		s.fail(err)
	}
	s.Dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// maxLinks is how many symbolic links the kernel follows in a path.
const maxLinks = 40

// Dead says that s.At lies on a FUSE mount whose daemon has ended. ECANCELED is what
// the kernel says while it takes back the io_urings of one.
func (s *Seen) Dead() bool {
	switch s.Errno {
	case syscall.ENOTCONN, syscall.ECONNABORTED, syscall.ECANCELED:
		return true
	}
	return false
}

func (s *Seen) fail(err error) {
	if !errors.As(err, &s.Errno) {
		s.Errno = syscall.EIO
	}
}

// Here is Path without another process: it may wait for ever.
func Here(path string) (s Seen) {
	s.walk(path, func() {})
	return s
}

// Absolute is a path made absolute. os.Getwd would ask for the directory, which
// may not answer.
func Absolute(path string) (string, error) {
	if path == "" {
		return "", errors.New("the mount point has no name")
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", os.NewSyscallError("getcwd", err)
	}
	return filepath.Join(unix.ByteSliceToString(buf[:n]), path), nil
}
