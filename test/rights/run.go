package rights

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Config says where scripts run.
type Config struct {
	// Backing is an empty directory on the server, Oracle one on a local file system.
	// Both are root's, and are given Mode.
	Backing, Oracle string
	Mode            os.FileMode
	// Mount returns Backing as users see it. It is called when the files are there.
	Mount func() string
	// As is whom the server takes a user for.
	As func(User) User
	// Kernel: the kernel checks modes too (default_permissions), for the user as he is.
	Kernel bool
	// Alone, if it has a name, is the one user of the mount. All others work in Backing,
	// as if on another machine.
	Alone User
	// Linux: the server is Linux's, which differs from a local file system where nothing
	// on a client can tell: it leaves set-id bits to a file that is cut, and says of a
	// directory that it may be written to only if it may be searched, too.
	Linux bool
	// Every runs one in so many scripts; 0 runs all.
	Every int
}

// run is a Config that is being run.
type run struct {
	Config
	t     *testing.T
	mount string
	// The oracle's and the mount's processes are different ones: they keep descriptors.
	local, remote map[string]*process
}

// Run runs all scripts. It must be root.
func Run(t *testing.T, c Config) {
	t.Helper()
	scripts := Scripts()
	for _, top := range []string{c.Backing, c.Oracle} {
		for i := range scripts {
			if err := scripts[i].make(filepath.Join(top, scriptDir(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(top, c.Mode); err != nil {
			t.Fatal(err)
		}
	}
	r := run{Config: c, t: t, mount: c.Mount(), local: map[string]*process{}, remote: map[string]*process{}}
	for _, u := range Users {
		r.remote[u.Name] = start(t, u)
		if as := c.As(u); r.local[as.Name] == nil {
			r.local[as.Name] = start(t, as)
		}
	}
	calls, wrong := 0, 0
	for i := 0; i < len(scripts); i += max(c.Every, 1) {
		s := &scripts[i]
		if s.Protected && !c.Kernel {
			continue // see docs/semantics.md
		}
		n, same := r.compare(s, scriptDir(i))
		calls += n
		if !same {
			wrong++
		}
	}
	t.Logf("%d calls, %d of %d scripts differ", calls, wrong, len(scripts)/max(c.Every, 1))
}

func scriptDir(i int) string { return fmt.Sprintf("s%d", i) }

// compare runs a script in both places and reports the first difference.
func (r *run) compare(s *Script, name string) (n int, same bool) {
	t := r.t
	t.Helper()
	oracle, mount, backing := filepath.Join(r.Oracle, name), filepath.Join(r.mount, name), filepath.Join(r.Backing, name)
	drop := Step{Do: Drop}
	defer func() {
		r.local[r.As(Owner).Name].do(t, &drop)
		r.remote[Owner.Name].do(t, &drop)
	}()
	for i := range s.Steps {
		step := s.Steps[i]
		step.Dir = oracle
		want := r.local[r.As(step.By).Name].do(t, &step)
		step.Dir = mount
		if r.Alone.Name != "" && step.By.Name != r.Alone.Name {
			step.Dir = backing
		}
		got := r.remote[step.By.Name].do(t, &step)
		n++
		switch r.judge(s, &step, got, want) {
		case differs:
			t.Errorf("%s: %v, locally %v", s.at(i), got, want)
			return n, false
		case incomparable:
			return n, true
		}
		if r.Linux && cuts(&step) && keepsSetID(backing) {
			return n, true
		}
		if looksOnly(step.Do) && i < len(s.Steps)-1 {
			continue
		}
		if a, b := state(backing), state(oracle); a != b {
			t.Errorf("%s: %v, and on the server there is\n%s\nlocally\n%s", s.at(i), got, a, b)
			return n, false
		}
	}
	return n, true
}

// at describes a step.
func (s *Script) at(i int) string {
	step := &s.Steps[i]
	return fmt.Sprintf("%s: step %d: %s by %s of %q %q (mode %o, flags %o, owner %d:%d)",
		s.Name, i, step.Do, step.By.Name, short(step.Name), short(step.To), step.Mode, step.Flags, step.UID, step.GID)
}

type verdict int

const (
	same verdict = iota
	differs
	// incomparable: the kernel has judged the user as he is, not as the server does.
	incomparable
)

// judge compares results.
func (r *run) judge(s *Script, step *Step, got, want Result) verdict {
	refused := want.Errno == syscall.EACCES || want.Errno == syscall.EPERM
	if r.Alone.Name != "" && opensSpecial(step.Do) {
		return same // what is opened is this machine's, or the other's
	}
	switch squashed := r.As(step.By).UID != step.By.UID; {
	case got == want:
		return same
	case r.Kernel && squashed && want.Errno == 0 && (got.Errno == syscall.EACCES || got.Errno == syscall.EPERM):
		return incomparable
	case r.Kernel && squashed && refused && (got.Errno != 0 || answeredByKernel(step.Do)):
		return same
	case r.Kernel && squashed && refused && step.By.UID == 0 && (r.Mode&0o001 == 0 || strings.Contains(step.Name, "/")):
		return incomparable // the kernel lets root walk by names that others have looked up
	case squashed && step.Do == Link && want.Errno == syscall.EPERM && got.Errno == 0:
		return incomparable // fs.protected_hardlinks is this machine's and judges its users
	case r.Linux && step.Do == Access && step.Mode&unix.W_OK != 0 && want.Errno == 0 && got.Errno == syscall.EACCES && step.Name == "d":
		return same
	case !r.Kernel && want.Errno == syscall.EACCES && refusedAlike(step.Do, got.Errno):
		return same
	}
	return differs
}

// cuts reports whether a step makes a file shorter without writing to it.
func cuts(s *Step) bool { return s.Do == Truncate || s.Do == Open && s.Flags&unix.O_TRUNC != 0 }

// keepsSetID reports whether the file of setIDScripts has set-id bits.
func keepsSetID(top string) bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(top, "f"), &st) == nil && st.Mode&0o6000 != 0
}

// looksOnly reports whether nothing can have been changed.
func looksOnly(op Op) bool { return answeredByKernel(op) || op == List }

// answeredByKernel reports whether a kernel that checks modes does so alone. It does not know
// whom the server takes the user for.
func answeredByKernel(op Op) bool {
	switch op {
	case Access, Chdir, Connect, Hold, Readlink, Stat, Use:
		return true
	}
	return false
}

// opensSpecial reports whether FIFOs or sockets are opened.
func opensSpecial(op Op) bool { return op == Connect || op == Hold || op == Use }

// refusedAlike reports whether an error stands for EACCES where the kernel checks no
// modes: a FIFO or socket without anybody at its other end, a socket that nobody can open,
// and the second of two reasons to refuse a change of names.
func refusedAlike(op Op, got syscall.Errno) bool {
	switch op {
	case Hold: // a pipe that nobody else gets, as Use by others shows
		return got == 0
	case Use, Connect:
		return got == nothingThere
	case Open:
		return got == syscall.ENXIO
	case Rename, Unlink, Rmdir:
		return got == syscall.ENOENT || got == syscall.EISDIR || got == syscall.ENOTDIR
	}
	return false
}

func short(name string) string {
	if len(name) > 40 {
		return name[:40] + "…"
	}
	return name
}

// make makes the files.
func (s *Script) make(top string) error {
	if err := os.Mkdir(top, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(top, 0o777); err != nil {
		return err
	}
	for _, f := range s.Files {
		name := filepath.Join(top, f.Name)
		var err error
		switch f.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = os.Mkdir(name, 0o700)
		case unix.S_IFLNK:
			err = os.Symlink(f.To, name)
		case unix.S_IFREG:
			err = os.WriteFile(name, []byte("content"), 0o600)
		default:
			err = unix.Mknod(name, f.Mode, 0)
		}
		if err == nil {
			err = os.Lchown(name, int(f.UID), int(f.GID))
		}
		if err == nil && f.Mode&unix.S_IFMT != unix.S_IFLNK {
			err = unix.Chmod(name, f.Mode&0o7777)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// state is all files of a script as they are.
func state(top string) string {
	var b strings.Builder
	err := filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		says, err := look(name)
		fmt.Fprintf(&b, "%s: %s\n", strings.TrimPrefix(name, top), says)
		return err
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}
