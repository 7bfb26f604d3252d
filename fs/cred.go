package fs

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// groupTTL is how long a process's supplementary groups are believed without
// looking again. FUSE does not carry them, so they are read from /proc.
const groupTTL = 5 * time.Second

// credCache knows the groups of the processes that lately called.
type credCache struct {
	mu   sync.Mutex
	pids map[uint32]credEntry
}

type credEntry struct {
	uid, gid uint32
	gids     []uint32
	until    time.Time
}

// maxCreds bounds the processes remembered.
const maxCreds = 4096

// of is the credential of a request's caller: its effective user and group as
// the kernel gave them, and its supplementary groups.
func (c *credCache) of(h *fuse.InHeader) nfsclient.Cred {
	cr := nfsclient.Cred{Sys: true, UID: h.Uid, GID: h.Gid}
	now := time.Now()
	c.mu.Lock()
	e, ok := c.pids[h.Pid]
	c.mu.Unlock()
	if !ok || e.uid != h.Uid || e.gid != h.Gid || now.After(e.until) {
		e = credEntry{uid: h.Uid, gid: h.Gid, gids: processGroups(h.Pid), until: now.Add(groupTTL)}
		c.mu.Lock()
		if c.pids == nil || len(c.pids) >= maxCreds {
			c.pids = make(map[uint32]credEntry)
		}
		c.pids[h.Pid] = e
		c.mu.Unlock()
	}
	cr.GIDs = e.gids
	return cr
}

// processGroups is the supplementary groups of a process; none when it is the
// kernel (pid 0), in another pid namespace, or gone.
func processGroups(pid uint32) []uint32 {
	var gids []uint32
	for _, f := range bytes.Fields(statusField(pid, "Groups:")) {
		if g, err := strconv.ParseUint(string(f), 10, 32); err == nil {
			gids = append(gids, uint32(g))
		}
	}
	return gids
}

// statusField is the value of a line of /proc/PID/status, nil when there is
// none. pid may be a thread's.
func statusField(pid uint32, name string) []byte {
	if pid == 0 {
		return nil
	}
	b, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return bytes.TrimSpace(v)
		}
	}
	return nil
}
