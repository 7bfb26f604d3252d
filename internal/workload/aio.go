package workload

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queue is a context of the kernel's asynchronous I/O, as io_setup(2) makes it.
type queue struct {
	id     uintptr
	events []event
}

// request is struct iocb of linux/aio_abi.h, little endian.
type request struct {
	Data      uint64
	Key       uint32
	RWFlags   uint32
	Opcode    uint16
	Priority  int16
	FD        uint32
	Buffer    uint64
	Bytes     uint64
	Offset    int64
	Reserved  uint64
	Flags     uint32
	EventFile uint32
}

// event is struct io_event: Data is the request's, Res what read(2) would return, or
// a negative error number.
type event struct {
	Data   uint64
	Object uint64
	Res    int64
	Res2   int64
}

// IOCB_CMD_PREAD and IOCB_CMD_PWRITE.
const (
	opRead  = 0
	opWrite = 1
)

func newQueue(depth int) (*queue, error) {
	q := &queue{events: make([]event, depth)}
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&q.id)), 0); e != 0 {
		return nil, os.NewSyscallError("io_setup", e)
	}
	return q, nil
}

// close waits for what is in flight.
func (q *queue) close() error {
	if _, _, e := unix.Syscall(unix.SYS_IO_DESTROY, q.id, 0, 0); e != 0 {
		return os.NewSyscallError("io_destroy", e)
	}
	return nil
}

// submit starts to read into b or to write it. b lies outside of Go's heap and is lent
// until the event with the slot comes.
func (q *queue) submit(op uint16, fd int, b []byte, offset int64, slot int) error {
	r := &request{
		Data: uint64(slot), Opcode: op, FD: uint32(fd),
		Buffer: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), Bytes: uint64(len(b)), Offset: offset,
	}
	for {
		// The kernel copies the request before the call returns.
		_, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, q.id, 1, uintptr(unsafe.Pointer(&r)))
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return os.NewSyscallError("io_submit", e)
		}
		return nil
	}
}

// wait returns the events that there are, at least one, until the next wait.
func (q *queue) wait() ([]event, error) {
	for {
		n, _, e := unix.Syscall6(unix.SYS_IO_GETEVENTS, q.id, 1, uintptr(len(q.events)), uintptr(unsafe.Pointer(&q.events[0])), 0, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return nil, os.NewSyscallError("io_getevents", e)
		}
		return q.events[:n], nil
	}
}
