package fs

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/cache"
)

// opForget is FUSE_FORGET; FUSE_BATCH_FORGET counts as one for each inode.
const opForget = 2

// opcodes names FUSE requests (linux/fuse.h), by their numbers.
var opcodes = [...]string{
	1: "LOOKUP", "FORGET", "GETATTR", "SETATTR", "READLINK", "SYMLINK", 8: "MKNOD", "MKDIR", "UNLINK", "RMDIR", "RENAME", "LINK",
	"OPEN", "READ", "WRITE", "STATFS", "RELEASE", 20: "FSYNC", "SETXATTR", "GETXATTR", "LISTXATTR", "REMOVEXATTR", "FLUSH", "INIT",
	"OPENDIR", "READDIR", "RELEASEDIR", "FSYNCDIR", "GETLK", "SETLK", "SETLKW", "ACCESS", "CREATE", "INTERRUPT", "BMAP", "DESTROY",
	"IOCTL", "POLL", "NOTIFY_REPLY", "BATCH_FORGET", "FALLOCATE", "READDIRPLUS", "RENAME2", "LSEEK", "COPY_FILE_RANGE",
	"SETUPMAPPING", "REMOVEMAPPING", "SYNCFS", "TMPFILE", "STATX",
}

func opcodeName(op uint32) string {
	if op < uint32(len(opcodes)) && opcodes[op] != "" {
		return opcodes[op]
	}
	return "OPCODE-" + strconv.FormatUint(uint64(op), 10)
}

// requestCounts counts the requests of the kernel by opcode.
type requestCounts [64]atomic.Uint64

func (r *requestCounts) add(op uint32) { r[op%uint32(len(r))].Add(1) }

// Requests is how many requests of each kind the kernel has made, by name.
func (f *FS) Requests() map[string]uint64 {
	all := make(map[string]uint64)
	for op := range f.requests {
		if n := f.requests[op].Load(); n > 0 {
			all[strings.ToLower(opcodeName(uint32(op)))] = n
		}
	}
	return all
}

// Blocked is a request that has waited for longer than a moment.
type Blocked struct {
	Request string // "READ"
	Path    string // quoted, as far as it is known
	PID     uint32 // of the thread that made it; 0 if it is the kernel itself, or of another pid namespace
	Process string // its name
	Since   time.Time
}

// maxBlocked bounds what Blocked returns.
const maxBlocked = 256

// Blocked are the requests that wait, the oldest first: those that the watch has seen, up to half a second after they
// began.
func (f *FS) Blocked() []Blocked {
	all, nodes := f.watch.blocked()
	var inodes []*cache.Inode
	for _, node := range nodes {
		i, _ := f.nodes.get(node)
		inodes = append(inodes, i)
	}
	known := slices.DeleteFunc(slices.Clone(inodes), func(i *cache.Inode) bool { return i == nil })
	paths := f.cache.Paths(known...)
	for n, i := range inodes {
		if i != nil {
			all[n].Path, paths = paths[0], paths[1:]
		}
		if all[n].PID != 0 {
			comm, _ := os.ReadFile("/proc/" + strconv.FormatUint(uint64(all[n].PID), 10) + "/comm")
			all[n].Process = strings.TrimSpace(string(comm))
		}
	}
	return all
}

// blocked are the requests that the watch has seen, with the numbers of their inodes.
func (w *watch) blocked() (all []Blocked, nodes []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ops []*opContext
	for _, c := range w.ops {
		if !c.seen.IsZero() {
			ops = append(ops, c)
		}
	}
	slices.SortFunc(ops, func(a, b *opContext) int { return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.pid, b.pid)) })
	for _, c := range ops[:min(len(ops), maxBlocked)] {
		all = append(all, Blocked{Request: opcodeName(c.opcode), PID: c.pid, Since: c.seen})
		nodes = append(nodes, c.node)
	}
	return all, nodes
}

// subject is the path of the file that a request is about, and the process that made it.
func (c *opContext) subject() string {
	path := "an unknown file"
	if i, st := c.f.nodes.get(c.node); st.Ok() {
		path = c.f.cache.Paths(i)[0]
	}
	return path + " for process " + strconv.FormatUint(uint64(c.pid), 10)
}
