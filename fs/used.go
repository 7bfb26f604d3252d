package fs

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/cache"
)

// Used is what a process has asked of a file since counting began.
type Used struct {
	PID     uint32 `json:"pid"` // 0: the kernel by itself, a process of another pid namespace, or one that had ended
	Process string `json:"process,omitempty"`
	Path    string `json:"path,omitempty"` // quoted, as far as it is known
	Node    uint64 `json:"node"`           // tells files without a path apart; 0 for all that were too many
	// Requests are those of the kernel; what its caches have answered is not among them.
	Requests     uint64 `json:"requests"`
	BytesRead    uint64 `json:"bytes_read"`
	BytesWritten uint64 `json:"bytes_written"`
}

const (
	// maxUsed bounds the pairs of process and file that are counted; what comes later is
	// counted as one.
	maxUsed = 512
	// maxUsedPath bounds a path in a report, so that all of them fit an answer of a control
	// socket. The end of a longer one is there.
	maxUsedPath = 512
	// usedRest ends the counting when nobody has asked for so long.
	usedRest = time.Minute
)

// use counts requests by process and file, while somebody asks for it: otherwise it costs a
// look at a pointer a request.
type use struct {
	counting atomic.Pointer[useTable]
	starting sync.Mutex
}

type useTable struct {
	mu        sync.Mutex
	asked     time.Time
	processes map[uint32]process // by thread
	counts    map[useKey]*Used
}

type useKey struct {
	pid  uint32
	node uint64
}

type process struct {
	pid  uint32
	name string
}

// add counts a request of a thread for a file.
func (u *use) add(thread uint32, node, read, written, requests uint64) {
	t := u.counting.Load()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.asked) > usedRest {
		u.counting.CompareAndSwap(t, nil)
		return
	}
	p, known := t.processes[thread]
	if !known && len(t.processes) < maxUsed {
		p = processOf(thread)
		t.processes[thread] = p
	}
	key := useKey{p.pid, node}
	c := t.counts[key]
	if c == nil {
		if len(t.counts) >= maxUsed {
			key, p = useKey{}, process{}
			c = t.counts[key]
		}
		if c == nil {
			c = &Used{PID: p.pid, Process: p.name, Node: key.node}
			t.counts[key] = c
		}
	}
	c.Requests += requests
	c.BytesRead += read
	c.BytesWritten += written
}

// processOf is the process of a thread.
func processOf(thread uint32) process {
	if thread == 0 {
		return process{}
	}
	text, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(thread), 10) + "/status")
	if err != nil {
		return process{}
	}
	var p process
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			p.name = value
		case "Tgid":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return process{}
			}
			p.pid = uint32(n)
			return p
		}
	}
	return process{}
}

// Used is what processes have asked of files since counting began, which the first call begins, and
// which goes on until nobody has called for a minute.
func (f *FS) Used() []Used {
	f.use.starting.Lock()
	defer f.use.starting.Unlock()
	t := f.use.counting.Load()
	if t == nil {
		t = &useTable{asked: time.Now(), processes: make(map[uint32]process), counts: make(map[useKey]*Used)}
		f.use.counting.Store(t)
	}
	t.mu.Lock()
	t.asked = time.Now()
	all := make([]Used, 0, len(t.counts))
	for _, c := range t.counts {
		all = append(all, *c)
	}
	t.mu.Unlock()
	var inodes []*cache.Inode
	var at []int
	for k := range all {
		if i, st := f.nodes.get(all[k].Node); st.Ok() {
			inodes, at = append(inodes, i), append(at, k)
		}
	}
	for k, path := range f.cache.Paths(inodes...) {
		if long := len(path) - maxUsedPath; long > 0 {
			path = "…" + strings.ToValidUTF8(path[long:], "")
		}
		all[at[k]].Path = path
	}
	return all
}
