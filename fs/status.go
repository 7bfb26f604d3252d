package fs

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// openStatuses keeps /proc/TID/status of threads open that have made requests: to
// open and close it costs more than to read it. Such a descriptor stands for the
// thread and not for its number: when the thread has ended, reading fails (ESRCH),
// whoever has the number then.
type openStatuses struct {
	mu    sync.Mutex
	of    map[uint32]int // descriptors that nobody reads at the moment
	ended bool
}

// maxStatuses bounds the descriptors that are kept.
const maxStatuses = 64

// read reads the state of a thread. free must follow if it succeeds.
func (o *openStatuses) read(p *procStatus, tid uint32) error {
	if !ownProc() {
		return errOtherProc
	}
	if fd, ok := o.take(tid); ok {
		if p.from(fd) == nil {
			o.keep(tid, fd)
			return nil
		}
		unix.Close(fd)
	}
	fd, err := unix.Open("/proc/"+strconv.FormatUint(uint64(tid), 10)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := p.from(fd); err != nil {
		unix.Close(fd)
		return err
	}
	o.keep(tid, fd)
	return nil
}

// take takes a thread's descriptor out, so that nobody closes it meanwhile.
func (o *openStatuses) take(tid uint32) (fd int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fd, ok = o.of[tid]
	delete(o.of, tid)
	return fd, ok
}

// keep takes fd over. If there are too many, any other one goes.
func (o *openStatuses) keep(tid uint32, fd int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.of[tid]; again || o.ended { // again: it was opened while this one was taken out
		unix.Close(fd)
		return
	}
	if o.of == nil {
		o.of = make(map[uint32]int, maxStatuses)
	}
	if len(o.of) >= maxStatuses {
		for other, fd := range o.of {
			unix.Close(fd)
			delete(o.of, other)
			break
		}
	}
	o.of[tid] = fd
}

// close closes them all, and keeps no further ones.
func (o *openStatuses) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, fd := range o.of {
		unix.Close(fd)
	}
	o.of = nil
}
