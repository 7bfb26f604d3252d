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

// mountPaths is the names on the paths to what is mounted on our file system. When
// the kernel looks up a name that it has cached and that fails, it drops the name,
// and silently unmounts everything below for all users, even if only one user was
// refused or one call timed out. ENOMEM is the one error besides EINTR that leaves
// the name alone (fuse_dentry_revalidate, d_invalidate in Linux).
type mountPaths struct {
	mu sync.Mutex
	// table is the mount table, open to notice changes; 0 while it is not. It is no
	// os.File: Go would poll it too, and each event is reported once.
	table int
	names map[string]struct{}
}

// lookupStatus returns the errno for a lookup of name that failed with st. Names are
// compared without their directories, so that a lookup in another directory may
// return ENOMEM where st would have done.
func (b *mountPaths) lookupStatus(device, name string, st fuse.Status) fuse.Status {
	switch st {
	case fuse.ENOENT, fuse.EINTR, fuse.Status(syscall.ESTALE), fuse.Status(syscall.ENAMETOOLONG):
		return st // the name is gone, or cannot lead anywhere
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(device)
	if _, leads := b.names[name]; leads {
		return fuse.Status(syscall.ENOMEM)
	}
	return st
}

// refresh reads the table if it has changed; mu is held. If it cannot be read there
// are no names.
func (b *mountPaths) refresh(device string) {
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

func (b *mountPaths) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table != 0 {
		unix.Close(b.table)
		b.table = 0
	}
}

// namesAbove is the names on the paths, within the file system with a device
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
