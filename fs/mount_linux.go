package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/privilege"
)

// mountFlags are the words that mount(2) knows as flags only. The bits are
// cleared before they are set.
var mountFlags = map[string]struct{ clear, set uintptr }{
	"ro": {set: unix.MS_RDONLY}, "rw": {clear: unix.MS_RDONLY},
	"suid": {clear: unix.MS_NOSUID}, "nosuid": {set: unix.MS_NOSUID},
	"dev": {clear: unix.MS_NODEV}, "nodev": {set: unix.MS_NODEV},
	"exec": {clear: unix.MS_NOEXEC}, "noexec": {set: unix.MS_NOEXEC},
	"async": {clear: unix.MS_SYNCHRONOUS}, "sync": {set: unix.MS_SYNCHRONOUS},
	"dirsync":  {set: unix.MS_DIRSYNC},
	"atime":    {clear: unix.MS_NOATIME},
	"noatime":  {set: unix.MS_NOATIME},
	"relatime": {set: unix.MS_RELATIME},
}

const (
	fuseDevice  = "/dev/fuse"
	fuseSubtype = "rdmafs"
)

// mountPlan is what is mounted where. Its mount is made here and not by
// go-fuse, since notifications are written to its descriptor (notify.go).
type mountPlan struct {
	source, dir string
	words       []string
	allowOther  bool
	maxRead     int
	device      *os.File // mounted already; nil to mount
	guarded     bool     // by a fusermount3 that goes on: see guard
	guard       *guard   // of mount
}

// mount mounts by mount(2), or by fusermount3 where this process may not, and
// returns the descriptor of the connection. It closes with the last program
// that has it.
func (p *mountPlan) mount() (*os.File, error) {
	switch {
	case p.device != nil:
		return p.given()
	case p.guarded:
		return p.helper()
	}
	f, err := p.direct()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return p.helper()
	}
	return f, err
}

// direct mounts by mount(2).
func (p *mountPlan) direct() (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Stat(p.dir, &st); err != nil {
		return nil, err
	}
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	flags, data := p.directOptions()
	data = append([]string{
		fmt.Sprintf("fd=%d", fd),
		fmt.Sprintf("rootmode=%o", st.Mode&unix.S_IFMT),
		fmt.Sprintf("user_id=%d", os.Geteuid()),
		fmt.Sprintf("group_id=%d", os.Getegid()),
		fmt.Sprintf("max_read=%d", p.maxRead),
	}, data...)
	if err := unix.Mount(p.source, p.dir, "fuse."+fuseSubtype, flags, strings.Join(data, ",")); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), fuseDevice), nil
}

// directOptions splits the words into those that mount(2) takes as flags and
// those that fuse takes as text.
func (p *mountPlan) directOptions() (flags uintptr, data []string) {
	flags = unix.MS_NOSUID | unix.MS_NODEV
	for _, w := range p.words {
		if f, ok := mountFlags[w]; ok {
			flags = flags&^f.clear | f.set
		} else {
			data = append(data, w)
		}
	}
	if p.allowOther {
		data = append(data, "allow_other")
	}
	return flags, data
}

// helper mounts by fusermount3, which hands over the descriptor on a socket. It
// knows no relatime: that is the kernel's default.
func (p *mountPlan) helper() (*os.File, error) {
	bin, err := privilege.Helper()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	local, remote := os.NewFile(uintptr(pair[0]), "local"), os.NewFile(uintptr(pair[1]), "remote")
	cmd := exec.Command(bin, p.dir, "-o", strings.Join(p.helperOptions(), ","))
	cmd.Env = []string{"_FUSE_COMMFD=3"}
	var said firstBytes
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, &said
	cmd.ExtraFiles = []*os.File{remote}
	err = cmd.Start()
	remote.Close()
	if err != nil {
		local.Close()
		return nil, err
	}
	f, err := receiveFile(local)
	if err == nil && p.guarded {
		p.guard = &guard{cmd: cmd, socket: local}
		return f, nil
	}
	local.Close()
	if ended := cmd.Wait(); ended != nil {
		if f != nil {
			f.Close()
		}
		return nil, &HelperError{Said: strings.Join(strings.FieldsFunc(string(said), isLineEnd), "; "), Err: fmt.Errorf("%s: %w", filepath.Base(bin), ended)}
	}
	return f, err
}

// HelperError says that fusermount3 did not mount.
type HelperError struct {
	Said string // why, in its own words, as one line; "" if it did not say
	Err  error
}

func (e *HelperError) Error() string { return e.Err.Error() }
func (e *HelperError) Unwrap() error { return e.Err }

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

// firstBytes keeps the beginning of what is written to it.
type firstBytes []byte

const maxFirstBytes = 4096

func (b *firstBytes) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxFirstBytes-len(*b))]...)
	return len(p), nil
}

// helperOptions is what fusermount3 is given, its separators escaped.
func (p *mountPlan) helperOptions() []string {
	words := slices.DeleteFunc(slices.Clone(p.words), func(w string) bool { return w == "relatime" })
	if p.allowOther {
		words = append(words, "allow_other")
	}
	if p.guarded {
		words = append(words, "auto_unmount")
	}
	words = append(words, "fsname="+p.source, "subtype="+fuseSubtype, fmt.Sprintf("max_read=%d", p.maxRead))
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`)
	for k := range words {
		words[k] = escape.Replace(words[k])
	}
	return words
}

// undo unmounts what mount has mounted, as far as it can.
func (p *mountPlan) undo() {
	if p.device != nil {
		return // it is another process'
	}
	defer p.guard.end()
	if unix.Unmount(p.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
		return
	}
	if bin, err := privilege.Helper(); err == nil {
		_ = exec.Command(bin, "-u", "-z", p.dir).Run()
	}
}

// receiveFile takes the one descriptor that a message on socket carries.
func receiveFile(socket *os.File) (*os.File, error) {
	var b [4]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), b[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("fusermount3 sent %d control messages, not one", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("fusermount3 sent %d descriptors, not one", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), fuseDevice), nil
}

// lend is a mount point for go-fuse that stands for another descriptor of f,
// which go-fuse takes.
func lend(f *os.File) (string, error) {
	const aboveStandard = 3 // go-fuse takes 0 for an error
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, aboveStandard)
	return "/dev/fd/" + strconv.Itoa(fd), err
}

// maxKernelIO is the size of the largest read or write that the kernel makes.
func maxKernelIO() int {
	pages := 256 // of Linux 4.20 to 6.12, which do not say
	if b, err := os.ReadFile("/proc/sys/fs/fuse/max_pages_limit"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			pages = n
		}
	}
	return pages * os.Getpagesize()
}

// settlePoll has the kernel ask once whether files can be polled. Once it knows
// that they cannot, opening one of them in this very process, which has the
// runtime poll it, waits for no answer from this process. go-fuse answers for
// the name.
func settlePoll(dir string) error {
	fd, err := syscall.Open(filepath.Join(dir, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLPRI | unix.POLLOUT}}, 0)
	return unix.Close(fd)
}

// raiseReadAhead raises the kernel's read-ahead of a mount. Only root may;
// without it our own read-ahead has to do.
func raiseReadAhead(device string, kib int) {
	path := "/sys/class/bdi/" + device + "/read_ahead_kb"
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && now < kib {
		_ = os.WriteFile(path, []byte(strconv.Itoa(kib)), 0)
	}
}
