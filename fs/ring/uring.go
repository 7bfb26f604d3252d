package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is an io_uring with one submission entry, for one goroutine.
type uring struct {
	fd          int
	rings, sqes []byte // mapped

	sqe            *sqe
	sqHead, sqTail *uint32
	cqHead, cqTail *uint32
	cqMask         uint32
	cqes           []cqe
}

// newURing sets an io_uring up. Its error is a unix.Errno if io_uring_setup
// failed.
func newURing() (*uring, error) {
	p := params{flags: setupSQE128 | setupNoSQArray}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, errno
	}
	unix.CloseOnExec(int(fd))
	r := &uring{fd: int(fd)}
	if err := r.mapRings(&p); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// mapRings maps what the kernel shares. What it says of their layout is checked:
// the rings lie in one mapping, and everything is inside.
func (r *uring) mapRings(p *params) error {
	const maxEntries = 64
	if p.features&featSingleMmap == 0 || p.sqEntries == 0 || p.sqEntries > maxEntries || p.cqEntries == 0 || p.cqEntries > maxEntries {
		return fmt.Errorf("io_uring_setup: unexpected features %#x, %d and %d entries", p.features, p.sqEntries, p.cqEntries)
	}
	const maxRings = 1 << 16
	length := uint64(p.cq.cqes) + uint64(p.cqEntries)*uint64(unsafe.Sizeof(cqe{}))
	for _, off := range []uint32{p.sq.head, p.sq.tail, p.cq.head, p.cq.tail, p.cq.ringMask, p.cq.cqes} {
		if off%4 != 0 || uint64(off)+4 > length || length > maxRings {
			return errors.New("io_uring_setup: unexpected layout")
		}
	}
	var err error
	if r.rings, err = unix.Mmap(r.fd, offRings, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("mmap of an io_uring: %w", err)
	}
	size := int(p.sqEntries) * int(unsafe.Sizeof(sqe{}))
	if r.sqes, err = unix.Mmap(r.fd, offSQEs, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("mmap of an io_uring: %w", err)
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sqe = (*sqe)(unsafe.Pointer(&r.sqes[0]))
	r.sqHead, r.sqTail = word(p.sq.head), word(p.sq.tail)
	r.cqHead, r.cqTail = word(p.cq.head), word(p.cq.tail)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.rings[p.cq.cqes])), p.cqEntries)
	r.cqMask = *word(p.cq.ringMask)
	if r.cqMask != p.cqEntries-1 {
		return errors.New("io_uring_setup: unexpected ring mask")
	}
	return nil
}

// prepare queues r.sqe, which the caller has filled in; the next enter submits
// it. One SQE at most is queued.
func (r *uring) prepare() { atomic.AddUint32(r.sqTail, 1) }

// submit submits what is queued, and returns without waiting.
func (r *uring) submit() error {
	for r.queued() > 0 {
		if err := r.enter(0); err != nil {
			return err
		}
	}
	return nil
}

// wait submits what is queued, waits for a completion, and takes it: one system
// call.
func (r *uring) wait() (int32, error) {
	for {
		if err := r.enter(1); err != nil {
			return 0, err
		}
		if res, ok := r.completion(); ok {
			return res, nil
		}
	}
}

func (r *uring) queued() uint32 { return *r.sqTail - atomic.LoadUint32(r.sqHead) }

// enter is one io_uring_enter. That a signal interrupted it, as the runtime's
// preemption does, or that memory was short, is no error: what was submitted is
// seen in the ring.
func (r *uring) enter(minComplete uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.queued()), minComplete, enterGetEvents, 0, 0)
	switch errno {
	case 0, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		return nil
	}
	return fmt.Errorf("io_uring_enter: %w", errno)
}

// completion takes a completion, if there is one.
func (r *uring) completion() (res int32, ok bool) {
	if res, ok = r.peek(); ok {
		atomic.StoreUint32(r.cqHead, *r.cqHead+1)
	}
	return res, ok
}

// peek is completion, but leaves it.
func (r *uring) peek() (res int32, ok bool) {
	head := *r.cqHead
	if head == atomic.LoadUint32(r.cqTail) {
		return 0, false
	}
	return r.cqes[head&r.cqMask].res, true
}

func (r *uring) close() {
	if r.sqes != nil {
		_ = unix.Munmap(r.sqes)
	}
	if r.rings != nil {
		_ = unix.Munmap(r.rings)
	}
	_ = unix.Close(r.fd)
}
