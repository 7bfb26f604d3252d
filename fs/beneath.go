package fs

import (
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// beneath knows the names that lead to what is mounted on a file system of
// ours. When a lookup of a name that it holds fails, the kernel drops the name,
// and with it silently unmounts everything below: for all users, though it was
// only one who was refused, or a call that timed out. ENOMEM is the one
// error, besides EINTR, that leaves the name alone (fuse_dentry_revalidate,
// d_invalidate in Linux).
type beneath struct {
	mu sync.Mutex
	// table is open on the mount table, to notice changes; 0 while it is not. It
	// is no os.File: Go would wait for its events too, and each is told once.
	table int
	names map[string]struct{}
}

// spare returns the errno for a lookup of name that failed with st. Names are
// compared without their directories: when two directories have the same name,
// the caller is told ENOMEM where st would have done.
func (b *beneath) spare(device, name string, st fuse.Status) fuse.Status {
	switch st {
	case fuse.ENOENT, fuse.EINTR, fuse.Status(syscall.ESTALE), fuse.Status(syscall.ENAMETOOLONG):
		return st // the name is gone, or cannot lead anywhere
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look(device)
	if _, leads := b.names[name]; leads {
		return fuse.Status(syscall.ENOMEM)
	}
	return st
}

// look reads the table if it has changed; mu is held. Without it there are no
// names.
func (b *beneath) look(device string) {
	const path = "/proc/self/mountinfo"
	if b.table == 0 {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		b.table = fd
	} else if n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.table), Events: unix.POLLPRI}}, 0); n == 0 && err == nil {
		return
	}
	b.names = nil
	if text, err := os.ReadFile(path); err == nil {
		b.names = namesAbove(device, string(text))
	}
}

func (b *beneath) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table != 0 {
		unix.Close(b.table)
		b.table = 0
	}
}

// namesAbove is the names on the ways, within the file system with a device
// number, to what is mounted on it.
func namesAbove(device, table string) map[string]struct{} {
	// 36 35 98:0 / /mnt rw,noatime … - ext3 /dev/root rw (proc_pid_mountinfo(5))
	ours := map[string][]string{} // by mount ID
	for line := range strings.Lines(table) {
		if w := strings.Fields(line); len(w) > 4 && w[2] == device {
			ours[w[0]] = w
		}
	}
	names := map[string]struct{}{}
	for line := range strings.Lines(table) {
		w := strings.Fields(line)
		if len(w) < 5 {
			continue
		}
		parent, on := ours[w[1]]
		if !on {
			continue
		}
		within := parent[3] + "/" + strings.TrimPrefix(w[4], parent[4])
		for name := range strings.SplitSeq(within, "/") {
			if name != "" {
				names[mounttable.Unescape(name)] = struct{}{}
			}
		}
	}
	return names
}
