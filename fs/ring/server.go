package ring

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Server serves one mount. Its methods are those of fuse.Server that package fs
// needs.
type Server struct {
	fs       fuse.RawFileSystem
	device   *os.File
	settings fuse.InitIn
	debug    bool
	log      *slog.Logger
	payload  int // bytes of an entry's payload
	message  int // bytes of the longest request by /dev/fuse

	queues []queue
	early  early
	joined sync.WaitGroup // everything that serves

	mu       sync.Mutex
	requests []*request // of every entry
	entries  []*entry   // whose memory is freed at the end
	ended    bool
}

// queue is a queue of the kernel's: there is one for each possible CPU.
type queue struct {
	// idle is how many entries wait for a request, or are about to.
	idle atomic.Int32
	// entries is how many there are.
	entries atomic.Int32
	// parked is how many have a request that waits for a lock. What ends such a wait may be
	// a request of this very queue, so that these are not counted among LastEntries.
	parked atomic.Int32
}

// maxParked bounds the requests of a CPU that wait for locks at once. There are no
// locks for others.
const maxParked = 1024

// How many entries a queue has: minEntries … maxEntries from the start, as many as
// make allFirst together with those of other queues, and up to lastFactor times as
// many later. An idle entry is a thread that waits.
const (
	allFirst   = 64
	minEntries = 2
	maxEntries = 16
	lastFactor = 4
)

// FirstEntries is how many requests of one CPU can be served at once without
// delay. More entries are made before these are used up, but in a burst a request
// may have to wait until one of these is answered.
func (s *Server) FirstEntries() int {
	return min(maxEntries, max(minEntries, allFirst/len(s.queues)))
}

// LastEntries is how many requests of one CPU can be served at once. What is
// beyond waits in the kernel.
func (s *Server) LastEntries() int { return lastFactor * s.FirstEntries() }

// New answers the kernel's INIT on device, with the flag that rings are to be
// used. o is what go-fuse would be given. Register must follow. The device is the
// caller's, and stays open until Wait has returned. If New fails, the mount is of no
// use.
func New(fs fuse.RawFileSystem, device *os.File, o *fuse.MountOptions, log *slog.Logger) (*Server, error) {
	cpus, err := possibleCPUs()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	settings, err := initialize(device, o)
	if err != nil {
		return nil, err
	}
	payload := max(minPayload, pageCeil(o.MaxWrite))
	return &Server{fs: fs, device: device, debug: o.Debug, log: log, payload: payload, message: payload + os.Getpagesize(),
		queues: make([]queue, cpus), settings: *settings}, nil
}

// Register gives each queue of the kernel's its first entries, and starts to serve. If it
// fails, the mount must be undone, and Wait returns after that: until then the
// kernel sends requests by /dev/fuse, and they are served.
func (s *Server) Register() (err error) {
	s.joined.Go(s.runDevice)
	all := len(s.queues) * s.FirstEntries()
	registered := make(chan error, all)
	for k := range all {
		s.start(k%len(s.queues), registered)
	}
	for range all {
		if e := <-registered; e != nil && err == nil {
			err = fmt.Errorf("FUSE over io_uring: %w", e)
		}
	}
	return err
}

func pageCeil(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// Serve is done by the goroutines that Register has started.
func (s *Server) Serve() {}

// Wait returns when the file system has been unmounted, and every request has its
// answer.
func (s *Server) Wait() {
	s.joined.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.free()
	}
	s.entries = nil
}

// KernelSettings is the kernel's INIT.
func (s *Server) KernelSettings() *fuse.InitIn {
	in := s.settings
	return &in
}

// start starts an entry of a queue, whose registration is reported.
func (s *Server) start(qid int, registered chan<- error) {
	s.queues[qid].entries.Add(1)
	s.queues[qid].idle.Add(1)
	s.joined.Go(func() { s.runEntry(qid, registered) })
}

// taken is called when an entry has a request. If few of the queue are left to
// take the next, there will be one more, before they are used up: the kernel does
// not give a new entry the requests that wait already.
func (s *Server) taken(qid int) {
	q := &s.queues[qid]
	if int(q.idle.Add(-1)) < s.FirstEntries()/2 && int(q.entries.Load()) < s.LastEntries()+min(maxParked, int(q.parked.Load())) {
		s.start(qid, nil)
	}
}

// add makes a request known to interrupts.
func (s *Server) add(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if s.ended {
		r.interruptAny()
	}
}

func (s *Server) remove(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(x *request) bool { return x == r })
}

// answer serves a request that has been loaded.
func (s *Server) answer(r *request) (n int, st fuse.Status) {
	r.begin()
	if s.early.take(r.header().Unique) {
		r.interruptAny()
	}
	if s.debug {
		s.log.Debug("rx " + r.describe())
	}
	n, st = r.serve()
	if s.debug {
		s.log.Debug(fmt.Sprintf("tx %d: %v, %d bytes", r.header().Unique, st, n))
	}
	r.end()
	return n, st
}

// describe is a request as -d logs it.
func (r *request) describe() string {
	h := r.header()
	name := fmt.Sprintf("opcode %d", h.Opcode)
	if op := find(h.Opcode); op != nil {
		name = op.name
	}
	const maxNames = 512
	data := ""
	if len(r.data) > 0 && len(r.data) <= maxNames {
		data = fmt.Sprintf(" %q", r.data)
	}
	return fmt.Sprintf("%d: %s n%d%s p%d, %d bytes", h.Unique, name, h.NodeId, data, h.Pid, len(r.data))
}

// InodeNotify makes the kernel drop what it has of a part of a file, and of its
// attributes.
func (s *Server) InodeNotify(node uint64, off, length int64) fuse.Status {
	return s.notify(fuse.NOTIFY_INVAL_INODE, structBytes(&fuse.NotifyInvalInodeOut{Ino: node, Off: off, Length: length}))
}

// PruneNotify asks the kernel to forget nodes that are not in use.
func (s *Server) PruneNotify(nodes []uint64) fuse.Status {
	if len(nodes) == 0 {
		return fuse.OK
	}
	if !s.settings.SupportsNotify(fuse.NOTIFY_PRUNE) {
		return fuse.ENOSYS
	}
	return s.notify(fuse.NOTIFY_PRUNE, structBytes(&fuse.NotifyPruneOut{Count: uint32(len(nodes))}), sliceBytes(nodes))
}

// notify writes a notification: an answer to no request, with its kind as
// status.
func (s *Server) notify(kind fuse.Status, body ...[]byte) fuse.Status {
	st := writeMessage(s.device, 0, kind, body...)
	if st == fuse.Status(unix.EINVAL) {
		return fuse.ENOSYS // the kernel does not know it
	}
	return st
}
