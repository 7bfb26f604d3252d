package fs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// creds makes credentials of callers. A FUSE request carries the caller's user and
// group, but not its supplementary groups, which are read from /proc for every
// request whose result may depend on them. Nothing that they say is cached: a process
// may drop its groups, and its number may be used again. The calling thread is
// blocked until the reply, so that it neither exits nor changes meanwhile.
type creds struct {
	log     *slog.Logger // may be nil
	open    openStatuses
	outside sync.Once
	hidden  sync.Once
}

// ids is the credential for operations that need no right, without supplementary
// groups.
func (c *creds) ids(h *fuse.InHeader) nfsclient.Cred {
	return nfsclient.Cred{UID: h.Uid, GID: h.Gid}
}

// of is the credential of a request's caller: its effective user and group as the
// kernel gave them, and its supplementary groups. If those cannot be read there are
// none, and the server refuses what only they would allow.
func (c *creds) of(h *fuse.InHeader) nfsclient.Cred {
	cr := c.ids(h)
	if h.Pid == 0 {
		c.once(&c.outside, "a process outside this daemon's pid namespace uses the mount: its supplementary groups cannot be seen, "+
			"so that access that only they give is refused, and a kill while it waits for the server takes effect after %v", unseenTimeout)
		return cr
	}
	var p procStatus
	if err := c.open.read(&p, h.Pid); err != nil {
		c.once(&c.hidden, "supplementary groups of process %d (user %d) cannot be read, so that access that only they give is refused: %v "+
			"(/proc must be mounted for this pid namespace and without hidepid=)", h.Pid, h.Uid, err)
		return cr
	}
	defer p.free()
	// A thread may act for another user, as it does below overlayfs for the user who
	// mounted that. That user's groups cannot be read.
	if slices.Contains(numbers(p.field("Uid:")), h.Uid) {
		cr.GIDs = numbers(p.field("Groups:"))
	}
	return cr
}

func (c *creds) once(o *sync.Once, format string, args ...any) {
	if c.log != nil {
		o.Do(func() { c.log.Warn(fmt.Sprintf(format, args...)) })
	}
}

// procStatus is /proc/TID/status of a thread.
type procStatus struct {
	buf  *[]byte // lent by statusBuffers
	text []byte
}

// statusBuffers are large enough for a thread with a few hundred groups; open
// grows them for more.
var statusBuffers = sync.Pool{New: func() any { b := make([]byte, 4096); return &b }}

// maxStatus is more than the 65536 groups of NGROUPS_MAX need.
const maxStatus = 1 << 20

// errOtherProc: a number in /proc is of another process than in FUSE requests.
var errOtherProc = errors.New("/proc is that of another pid namespace")

// ownProc reports whether /proc numbers processes as FUSE does for this process:
// by the pid namespace that it is in.
var ownProc = sync.OnceValue(func() bool {
	var p procStatus
	if p.open("/proc/self/status") != nil {
		return false
	}
	defer p.free()
	// One number for each namespace from that of /proc down to ours.
	all := numbers(p.field("NSpid:"))
	return len(all) <= 1 && slices.Equal(numbers(p.field("Pid:")), []uint32{uint32(os.Getpid())})
})

// read reads the state of a thread. free must follow if it succeeds.
func (p *procStatus) read(tid uint32) error {
	if !ownProc() {
		return errOtherProc
	}
	return p.open("/proc/" + strconv.FormatUint(uint64(tid), 10) + "/status")
}

func (p *procStatus) open(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return p.from(fd)
}

// from reads what a descriptor shows now. free must follow if it succeeds.
func (p *procStatus) from(fd int) error {
	p.buf = statusBuffers.Get().(*[]byte)
	for {
		n, err := unix.Pread(fd, *p.buf, 0)
		if err == nil && n == len(*p.buf) && n < maxStatus {
			*p.buf = make([]byte, 4*n)
			continue
		}
		if err == nil && n == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			p.free()
			return err
		}
		p.text = (*p.buf)[:n]
		return nil
	}
}

func (p *procStatus) free() { statusBuffers.Put(p.buf) }

// field is the value of a line, nil if there is none.
func (p *procStatus) field(name string) []byte {
	for line := range bytes.Lines(p.text) {
		if v, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return bytes.TrimSpace(v)
		}
	}
	return nil
}

// numbers are the decimal numbers of a line.
func numbers(line []byte) (all []uint32) {
	for f := range bytes.FieldsSeq(line) {
		if n, err := strconv.ParseUint(string(f), 10, 32); err == nil {
			all = append(all, uint32(n))
		}
	}
	return all
}
