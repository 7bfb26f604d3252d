package rights

import (
	"fmt"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Step is one call of one user. Names are relative to Dir.
type Step struct {
	By    User
	Do    Op
	Name  string
	To    string // the second name; the target of Symlink
	Mode  uint32 // of files made and chmod, the mask of Access
	Flags int    // of Open
	UID   int    // of Chown; -1 keeps
	GID   int
	Size  int64
	Dir   string
}

// Op is a call.
type Op string

// What users do. Use is to open a FIFO for reading and writing and to read what Hold
// has written to it; Listen, Hold and Keep last until Drop.
const (
	Access    Op = "access"
	Bind      Op = "bind"
	Chdir     Op = "chdir"
	Chmod     Op = "chmod"
	Chown     Op = "chown"
	Connect   Op = "connect"
	Drop      Op = "drop"
	Hold      Op = "hold"
	Keep      Op = "keep" // opens, and keeps the descriptor
	KeptWrite Op = "write by kept descriptor"
	KeptCut   Op = "ftruncate of kept descriptor"
	Lchown    Op = "lchown"
	Link      Op = "link"
	List      Op = "list"
	Mkdir     Op = "mkdir"
	Mkfifo    Op = "mkfifo"
	Mknod     Op = "mknod"
	Open      Op = "open"
	Readlink  Op = "readlink"
	Rename    Op = "rename"
	Rmdir     Op = "rmdir"
	Stat      Op = "stat"
	Symlink   Op = "symlink"
	Touch     Op = "utimensat now"
	TouchOne  Op = "utimensat now, omit"
	Truncate  Op = "truncate"
	Unlink    Op = "unlink"
	Use       Op = "use"
	Utimes    Op = "utimensat set"
	Write     Op = "write"
)

// Result is what came of a Step.
type Result struct {
	Errno syscall.Errno
	Says  string // of Stat and others that return something
}

func (r Result) String() string {
	if r.Errno == 0 {
		return strings.TrimSpace("ok " + r.Says)
	}
	return unix.ErrnoName(r.Errno)
}

// nothingThere is the result of opening a FIFO or socket that nobody else uses: on a mount
// whose kernel checks no modes it is all that is refused users get.
const nothingThere = unix.ECONNREFUSED

// worker is what the process of a user keeps between requests.
type worker struct{ kept []int }

func (w *worker) do(s *Step) (r Result) {
	says, err := w.call(s)
	switch e := err.(type) {
	case nil:
	case syscall.Errno:
		r.Errno = e
	default:
		panic(err)
	}
	r.Says = says
	return r
}

func (w *worker) call(s *Step) (says string, err error) {
	name, to := s.Dir+"/"+s.Name, s.Dir+"/"+s.To
	switch s.Do {
	case Access:
		return "", unix.Access(name, s.Mode)
	case Bind, Connect:
		return "", w.socket(s.Do, name)
	case Chdir:
		if err := unix.Chdir(name); err != nil {
			return "", err
		}
		return "", unix.Chdir("/")
	case Chmod:
		return "", unix.Chmod(name, s.Mode)
	case Chown:
		return "", unix.Chown(name, s.UID, s.GID)
	case Lchown:
		return "", unix.Lchown(name, s.UID, s.GID)
	case Drop:
		for _, fd := range w.kept {
			unix.Close(fd)
		}
		w.kept = nil
		return "", nil
	case Hold, Keep:
		return "", w.keep(s, name)
	case KeptWrite, KeptCut:
		if len(w.kept) == 0 {
			return "", unix.EBADF
		}
		if s.Do == KeptCut {
			return "", unix.Ftruncate(w.kept[0], s.Size)
		}
		if _, err := unix.Write(w.kept[0], []byte("kept content")); err != nil {
			return "", err
		}
		return "", unix.Fsync(w.kept[0])
	case Use:
		return "", use(name)
	case Link:
		return "", unix.Link(name, to)
	case List:
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	case Mkdir:
		return "", unix.Mkdir(name, s.Mode)
	case Mkfifo:
		return "", unix.Mkfifo(name, s.Mode)
	case Mknod:
		return "", unix.Mknod(name, s.Mode, int(unix.Mkdev(1, 3)))
	case Open, Write:
		return "", openAs(s, name)
	case Readlink:
		var b [256]byte
		n, err := unix.Readlink(name, b[:])
		return string(b[:max(n, 0)]), err
	case Rename:
		return "", unix.Rename(name, to)
	case Rmdir:
		return "", unix.Rmdir(name)
	case Stat:
		return look(name)
	case Symlink:
		return "", unix.Symlink(s.To, name)
	case Touch:
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, name, nil, 0)
	case TouchOne:
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}, 0)
	case Utimes:
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{{Sec: 1e9}, {Sec: 1e9}}, 0)
	case Truncate:
		return "", unix.Truncate(name, s.Size)
	case Unlink:
		return "", unix.Unlink(name)
	}
	panic("no such call: " + string(s.Do))
}

// look shows what users care for.
func look(name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		st.Size, st.Nlink = 0, 0 // file systems differ
	}
	return fmt.Sprintf("%o %d:%d size %d links %d", st.Mode, st.Uid, st.Gid, st.Size, st.Nlink), nil
}

func openAs(s *Step, name string) error {
	fd, err := unix.Open(name, s.Flags|unix.O_NONBLOCK|unix.O_CLOEXEC, s.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.Do == Write {
		_, err = unix.Write(fd, []byte("x"))
	}
	return err
}

// keep opens, and for Hold writes to a FIFO.
func (w *worker) keep(s *Step, name string) error {
	fd, err := unix.Open(name, s.Flags|unix.O_NONBLOCK|unix.O_CLOEXEC, s.Mode)
	if err != nil {
		return err
	}
	w.kept = append(w.kept, fd)
	if s.Do == Hold {
		_, err = unix.Write(fd, []byte("x"))
	}
	return err
}

// use reads what another process has written to a FIFO, and writes it again.
func use(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var b [1]byte
	switch n, err := unix.Read(fd, b[:]); {
	case err == unix.EAGAIN || err == nil && n == 0:
		return nothingThere
	case err != nil:
		return err
	}
	_, err = unix.Write(fd, b[:])
	return err
}

// socket makes a listening socket, or connects to one. Names of sockets are short, so
// that the directory is entered, which needs the same right as to walk through it.
func (w *worker) socket(op Op, name string) error {
	if err := unix.Chdir(path.Dir(name)); err != nil {
		return err
	}
	defer unix.Chdir("/")
	name = path.Base(name)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if op == Connect {
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	}
	w.kept = append(w.kept, fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return err
	}
	return unix.Listen(fd, 8)
}
