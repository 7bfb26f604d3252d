package main

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

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// A path may lead to a mount whose daemon or server is gone, and whoever asks
// the kernel about it then waits for ever, perhaps not even to be killed. So a
// process of its own asks, this program executed anew, which is left behind if
// it does not come back. lookEnv tells it the path.
const lookEnv = "_RDMAFS_LOOK"

// seen is what there is to know of a path.
type seen struct {
	at    string // the last that was touched; free of symbolic links in the end
	found bool   // at is where the path leads
	dir   bool
	errno syscall.Errno // why at or what it is could not be found out
}

// lookTimeout is how long what is asked of a path may take.
const lookTimeout = 10 * time.Second

// errSilent: nobody answers for seen.at.
var errSilent = errors.New("does not answer")

// look finds out, with patience, where an absolute path leads and, unless the
// name will do, what is there. It tells of what it saw with errSilent too.
func look(path string, name bool) (s seen, err error) {
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
	cmd.Env = append(os.Environ(), lookEnv+"="+path)
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return s, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	_ = r.SetReadDeadline(time.Now().Add(lookTimeout))
	steps := bufio.NewReader(r)
	for !s.found || !name {
		step, err := steps.ReadString(0)
		if errors.Is(err, io.EOF) {
			return s, cmd.Wait()
		}
		if err != nil {
			err = errSilent
		} else if err = s.take(strings.TrimSuffix(step, "\x00")); err == nil {
			continue
		}
		abandonProcess(cmd.Process)
		return s, err
	}
	abandonProcess(cmd.Process)
	return s, nil
}

// abandonProcess ends a process and does not wait for that: it may be waiting
// itself, in a way that no signal ends.
func abandonProcess(p *os.Process) {
	_ = p.Kill()
	_ = p.Release()
}

// take adds a step of lookFor.
func (s *seen) take(step string) error {
	if at, is := strings.CutPrefix(step, "at "); is {
		s.at = at
		return nil
	}
	_, err := fmt.Sscan(step, &s.found, &s.dir, (*uintptr)(&s.errno))
	return err
}

// lookFor is the other process: it tells each step before and after it is made.
func lookFor(path string, to io.Writer) {
	s := seen{}
	tell := func() { fmt.Fprintf(to, "at %s\x00%t %t %d\x00", s.at, s.found, s.dir, uintptr(s.errno)) }
	s.walk(path, tell)
	tell()
}

// walk may wait for ever. It calls about to touch s.at.
func (s *seen) walk(path string, about func()) {
	s.at = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		up := s.at
		s.at = filepath.Join(up, name)
		if name == ".." {
			continue
		}
		about()
		// A mount point is found to be no link without asking who serves it.
		target, err := os.Readlink(s.at)
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
		if s.at = up; filepath.IsAbs(target) {
			s.at = "/"
		}
	}
	s.found = true
	about()
	// Nobody's memory of it will do, and an automount is no mount yet.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, s.at, unix.AT_STATX_FORCE_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st); err != nil {
		s.fail(err)
	}
	s.dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// maxLinks is how many symbolic links the kernel follows in a path.
const maxLinks = 40

// dead says that s.at lies on a FUSE mount whose daemon has ended.
func (s *seen) dead() bool { return s.errno == syscall.ENOTCONN || s.errno == syscall.ECONNABORTED }

func (s *seen) fail(err error) {
	if !errors.As(err, &s.errno) {
		s.errno = syscall.EIO
	}
}

// absolute is a path made absolute. os.Getwd would ask for the directory, which
// may not answer.
func absolute(path string) (string, error) {
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

// mountPointArg is the absolute name of a mount point. What is in the mount
// table under the name given is not touched.
func mountPointArg(arg string) (string, error) {
	abs, err := absolute(arg)
	if err != nil {
		return "", err
	}
	if _, ok, err := mounttable.Find(abs); ok || err != nil {
		return abs, err
	}
	s, err := look(abs, true)
	switch {
	case errors.Is(err, errSilent):
		return "", fmt.Errorf("%s does not answer%s", arg, obstacle(s.at))
	case err != nil:
		return "", err
	case !s.found:
		return abs, nil // and nothing is mounted on what is not there
	}
	return s.at, nil
}

// obstacle tells, for a message, what is mounted where a path does not answer,
// and how to end it. Mounts of disks are not suspected.
func obstacle(path string) string {
	table, err := mounttable.Read()
	if err != nil {
		return ""
	}
	m := mounttable.Under(path, table)
	var end string
	switch {
	case m.Type == "fuse.rdmafs":
		end = "rdmafs umount -f " + m.Dir
	case m.Type == "fuse" || strings.HasPrefix(m.Type, "fuse."):
		end = "fusermount3 -uz " + m.Dir
	case m.Type == "nfs" || m.Type == "nfs4" || m.Type == "cifs":
		end = "umount -f -l " + m.Dir
	default:
		return ""
	}
	return fmt.Sprintf(": on %s lies a mount of %s, type %s (end it with: %s)", m.Dir, m.Source, m.Type, end)
}
