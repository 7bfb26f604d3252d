package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// entry takes one request at a time of a queue of the kernel's. It has an io_uring
// of its own, so that the thread which waits is the one that submitted: the kernel
// wakes no other to hand a request over.
type entry struct {
	qid    int
	ring   *uring
	memory []byte // header, iovecs, payload
	header *header
	iovecs *[2]unix.Iovec // read by the kernel at REGISTER
	*request
}

// newEntry makes an entry that is not registered.
func (s *Server) newEntry(qid int) (*entry, error) {
	page := os.Getpagesize()
	ring, err := newURing()
	if err != nil {
		if errno, ok := err.(unix.Errno); ok {
			err = explainSetup(errno)
		}
		return nil, err
	}
	memory, err := unix.Mmap(-1, 0, page+s.payload, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		ring.close()
		return nil, fmt.Errorf("memory for requests: %w", err)
	}
	e := &entry{qid: qid, ring: ring, memory: memory, request: newRequest(s.fs, s.log, memory[page:])}
	e.header = (*header)(unsafe.Pointer(&memory[0]))
	e.iovecs = (*[2]unix.Iovec)(unsafe.Pointer(&memory[page/2]))
	e.iovecs[0].Base, e.iovecs[0].Len = &memory[0], uint64(unsafe.Sizeof(header{}))
	e.iovecs[1].Base, e.iovecs[1].Len = &memory[page], uint64(s.payload)
	return e, nil
}

// free frees what the kernel has given back.
func (e *entry) free() {
	e.ring.close()
	_ = unix.Munmap(e.memory)
}

// prepare queues a command of the entry.
func (e *entry) prepare(fd int, command uint32, commitID uint64) {
	*e.ring.sqe = sqe{opcode: opURingCmd, fd: int32(fd), cmdOp: command}
	if command == cmdRegister {
		e.ring.sqe.addr, e.ring.sqe.length = uint64(uintptr(unsafe.Pointer(e.iovecs))), uint32(len(e.iovecs))
	}
	e.ring.sqe.cmd.commitID, e.ring.sqe.cmd.qid = commitID, uint16(e.qid)
	e.ring.prepare()
}

// runEntry makes an entry of a queue, and serves its requests until the mount
// ends. registered, if not nil, is told once whether the kernel has taken the
// entry.
func (s *Server) runEntry(qid int, registered chan<- error) {
	e, err := s.newEntry(qid)
	if err == nil {
		s.mu.Lock()
		s.entries = append(s.entries, e)
		s.mu.Unlock()
		s.add(e.request)
		defer s.remove(e.request)
		err = e.register(int(s.device.Fd()))
	}
	if registered != nil {
		registered <- err
	}
	if err != nil {
		q := &s.queues[qid]
		q.idle.Add(-1)
		q.entries.Add(-1)
		if registered == nil && !isEnd(err) {
			s.log.Warn("one request less of a CPU can be served at once", slog.Any("err", err))
		}
		return
	}
	for {
		err := e.next()
		if err != nil {
			if !isEnd(err) {
				s.log.Error("requests of a CPU may not be answered any more", slog.Any("err", err))
			}
			return
		}
		s.serveTaken(qid, e)
		s.queues[qid].idle.Add(1)
	}
}

// serveTaken serves the request that e has, while another entry may be made for the next.
func (s *Server) serveTaken(qid int, e *entry) {
	if e.opcode() == opSetLkw {
		e.crowded = s.queues[qid].parked.Add(1) > maxParked
		defer s.queues[qid].parked.Add(-1)
	}
	s.taken(qid)
	s.serveEntry(e)
}

// opcode is what the kernel says that e's request is.
func (e *entry) opcode() uint32 { return binary.NativeEndian.Uint32(e.header.inOut[4:]) }

// register gives the entry to the kernel. An entry that it has taken has no
// completion until there is a request.
func (e *entry) register(fd int) error {
	e.prepare(fd, cmdRegister, 0)
	if err := e.ring.submit(); err != nil {
		return err
	}
	if res, there := e.ring.peek(); there && res != 0 {
		return fmt.Errorf("registering for queue %d: %w", e.qid, unix.Errno(-res))
	}
	return nil
}

// next submits what is queued and waits for a request.
func (e *entry) next() error {
	toKernel()
	for {
		res, err := e.ring.wait()
		switch {
		case err != nil:
			return err
		case res == 0:
			fromKernel()
			return nil
		case res == -int32(unix.EINTR), res == -int32(unix.EAGAIN):
			e.ring.prepare() // the same again: the kernel does not change it
		default:
			return unix.Errno(-res)
		}
	}
}

// isEnd reports whether an error says that the mount has ended.
func isEnd(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.ENOTCONN, unix.ECONNABORTED, unix.ECANCELED, unix.ENODEV:
		return true
	}
	return false
}

// serveEntry serves the request that e has, and queues its answer.
func (s *Server) serveEntry(e *entry) {
	commit := e.header.ent.commitID
	n, st := 0, fuse.EIO
	if err := e.load(e.header, e.header.ent.payloadSize); err != nil {
		s.log.Warn("a request of the kernel was refused", slog.Any("err", err))
	} else {
		n, st = s.answer(e.request)
	}
	putOutHeader(e.header.inOut[:], outHeaderLen+n, st, e.request.header().Unique)
	e.header.ent.payloadSize = uint32(n)
	e.prepare(int(s.device.Fd()), cmdCommitAndFetch, commit)
}
