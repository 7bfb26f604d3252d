package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/test/netns"
)

// workerProc is a worker's process and the model of what it has done.
type workerProc struct {
	*process
	job

	mu    sync.Mutex
	files map[int]*file // by the worker's number
	paths map[int]string
	names map[int]*names // by the worker's directory
	// ops counts calls that succeeded, acks those among them that acknowledged.
	ops, acks int
	// doing is what each file's goroutine was about to do at its last event.
	doing    map[int]string
	errors   map[string]int // by errno and call
	first    map[syscall.Errno]string
	bad      []string
	finished bool
}

// startWorker starts a worker.
func startWorker(at netns.Host, j job) (*workerProc, error) {
	h := &workerProc{job: j, files: map[int]*file{}, paths: map[int]string{}, names: map[int]*names{}, doing: map[int]string{}, errors: map[string]int{}, first: map[syscall.Errno]string{}}
	arg, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h.process, err = start(at, fmt.Sprint("worker ", j.Number), h.handle, self, "worker", string(arg))
	return h, err
}

// handle processes an event.
func (h *workerProc) handle(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	event, rest, _ := strings.Cut(line, " ")
	var n int
	args := func(into ...any) { _, _ = fmt.Sscan(rest, into...) }
	switch event {
	case evOpen:
		var id uint32
		var low int64
		var others bool
		var path string
		args(&n, &id, &low, &others, &path)
		h.files[n], h.paths[n] = &file{id: id, low: low, others: others}, path
	case evWrite:
		var off, size int64
		var number uint32
		args(&n, &off, &size, &number)
		h.files[n].write(off, size, number)
		h.doing[n] = line
	case evDone, evRead:
		args(&n)
		h.ops++
		delete(h.doing, n)
	case evSync:
		args(&n)
		h.doing[n] = line
	case evAck:
		args(&n)
		h.files[n].acknowledge()
		h.ops++
		h.acks++
		delete(h.doing, n)
	case evError:
		var no int
		args(&n, &no)
		if f := h.files[n]; f != nil {
			f.fail()
		}
		delete(h.doing, n)
		what := strings.Fields(rest)[2]
		h.errors[fmt.Sprintf("%s: %v", what, syscall.Errno(no))]++
		if h.first[syscall.Errno(no)] == "" {
			h.first[syscall.Errno(no)] = rest
		}
	case evBegin:
		args(&n)
		to := map[string][]string{}
		for _, w := range strings.Fields(rest)[1:] {
			path, states, _ := strings.Cut(w, "=")
			to[path] = strings.Split(states, "|")
		}
		if h.names[n] == nil {
			for top := range to {
				h.names[n] = &names{top: top}
			}
		}
		h.names[n].begin(to)
		h.doing[n] = line
	case evEnd:
		var done bool
		args(&n, &done)
		h.names[n].end(done)
		if done {
			h.ops++
			h.acks++
		}
		delete(h.doing, n)
	case evBad:
		h.bad = append(h.bad, rest)
	case evFinish:
		h.finished = true
	}
}

// done is how much has succeeded and been acknowledged.
func (h *workerProc) done() (ops, acks int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ops, h.acks
}

// told reports whether a call has failed.
func (h *workerProc) told() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.errors) > 0
}

// verify compares what the worker left below dir with the model.
func (h *workerProc) verify(dir string) (lost int, all []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.names {
		there, err := list(dir, s.top)
		if err != nil {
			all = append(all, err)
			continue
		}
		names, bad := s.check(there)
		lost, all = lost+names, append(all, bad...)
	}
	for n, f := range h.files {
		b, err := os.ReadFile(filepath.Join(dir, h.paths[n]))
		if os.IsNotExist(err) && !slices.ContainsFunc(f.acked, func(x uint32) bool { return x != 0 }) {
			continue // it has never existed
		}
		if err == nil {
			var bytes int
			bytes, err = f.checkFinal(b)
			lost += bytes
		} else {
			lost += len(f.acked) * unit
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", h.paths[n], err))
		}
	}
	return lost, all
}

// list is what is in a worker's directory, of which the name begins with top, and
// that directory, by path.
func list(dir, top string) (map[string]string, error) {
	there := map[string]string{}
	first, err := filepath.Glob(filepath.Join(dir, top))
	if err != nil {
		return nil, err
	}
	more, err := filepath.Glob(filepath.Join(dir, top+"-*"))
	if err != nil {
		return nil, err
	}
	for _, top := range append(first, more...) {
		err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if strings.HasPrefix(filepath.Base(rel), ".nfs") {
				return nil
			}
			there[rel], err = stateOf(path)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}
