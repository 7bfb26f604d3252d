package ring

import (
	"encoding/binary"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// readMessage reads one request of /dev/fuse. The device blocks, and is not
// closed while it is read.
func readMessage(device *os.File, buf []byte) (int, error) {
	for {
		n, err := unix.Read(int(device.Fd()), buf)
		switch err {
		case unix.EINTR, unix.EAGAIN, unix.ENOENT: // ENOENT: the request was aborted meanwhile
			continue
		}
		return n, err
	}
}

// writeMessage writes an answer, or a notification, to /dev/fuse.
func writeMessage(device *os.File, unique uint64, st fuse.Status, body ...[]byte) fuse.Status {
	head := make([]byte, outHeaderLen)
	iov := append([][]byte{head}, body...)
	n := outHeaderLen
	for _, b := range body {
		n += len(b)
	}
	putOutHeader(head, n, st, unique)
	for {
		_, err := unix.Writev(int(device.Fd()), iov)
		if err != unix.EINTR {
			return fuse.ToStatus(err)
		}
	}
}

// putOutHeader puts struct fuse_out_header into b.
func putOutHeader(b []byte, n int, st fuse.Status, unique uint64) {
	binary.NativeEndian.PutUint32(b, uint32(n))
	binary.NativeEndian.PutUint32(b[4:], uint32(-st))
	binary.NativeEndian.PutUint64(b[8:], unique)
}

// runDevice serves what the kernel sends by /dev/fuse: FORGET, BATCH_FORGET and
// INTERRUPT. It ends with the mount.
func (s *Server) runDevice() {
	buf := make([]byte, s.message)
	for {
		n, err := readMessage(s.device, buf)
		if err != nil {
			if err != unix.ENODEV {
				s.log.Error("reading /dev/fuse failed", slog.Any("err", err))
			}
			s.interruptAll()
			return
		}
		s.serveMessage(buf[:n])
	}
}

// serveMessage serves one request of /dev/fuse; it borrows msg.
func (s *Server) serveMessage(msg []byte) {
	if len(msg) < inHeaderLen {
		s.log.Warn("a request is too short", slog.Int("bytes", len(msg)))
		return
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(msg[at:]) }
	var h fuse.InHeader
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), msg)
	body := len(msg) - inHeaderLen
	switch {
	case h.Opcode == opForget && body >= 8:
		s.fs.Forget(h.NodeId, word(inHeaderLen))
	case h.Opcode == opBatchForget && body >= 8:
		const one = 16
		count := int(binary.NativeEndian.Uint32(msg[inHeaderLen:]))
		for at := inHeaderLen + 8; count > 0 && at+one <= len(msg); at += one {
			s.fs.Forget(word(at), word(at+8))
			count--
		}
	case h.Opcode == opInterrupt && body >= 8:
		s.interrupt(word(inHeaderLen))
	case h.Opcode == opForget || h.Opcode == opBatchForget:
	default:
		// It was queued before the rings were ready.
		msg := append([]byte(nil), msg...)
		s.joined.Go(func() { s.runRequest(msg) })
	}
}

// runRequest serves one request that came by /dev/fuse and wants an answer. It
// takes msg.
func (s *Server) runRequest(msg []byte) {
	r := newRequest(s.fs, s.log, make([]byte, s.message))
	n, st := 0, fuse.EIO
	if err := r.loadMessage(msg); err != nil {
		s.log.Warn("a request of the kernel was refused", slog.Any("err", err))
	} else {
		s.add(r)
		n, st = s.answer(r)
		s.remove(r)
	}
	writeMessage(s.device, r.header().Unique, st, r.payload[:n])
}

// early are the interrupts of requests that were not being served: either they
// are answered, or an entry has them and has not looked yet. The kernel sends an
// interrupt once.
type early struct {
	count atomic.Int32 // len(all), for those who need not lock

	mu  sync.Mutex
	all []earlyInterrupt
}

type earlyInterrupt struct {
	unique uint64
	at     time.Time
}

const (
	// maxEarly bounds them, earlyLimit how long one is kept: far longer than the
	// entry's goroutine takes to be scheduled.
	maxEarly   = 256
	earlyLimit = 10 * time.Second
)

func (e *early) add(unique uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.purge(time.Now())
	if len(e.all) == maxEarly {
		e.all = e.all[1:]
	}
	e.all = append(e.all, earlyInterrupt{unique, time.Now()})
	e.count.Store(int32(len(e.all)))
}

// take reports whether unique was interrupted, and forgets it.
func (e *early) take(unique uint64) (found bool) {
	if e.count.Load() == 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.purge(time.Now())
	for k, x := range e.all {
		if x.unique == unique {
			e.all = append(e.all[:k], e.all[k+1:]...)
			found = true
			break
		}
	}
	e.count.Store(int32(len(e.all)))
	return found
}

// purge forgets the old ones; mu is held.
func (e *early) purge(now time.Time) {
	for len(e.all) > 0 && now.Sub(e.all[0].at) > earlyLimit {
		e.all = e.all[1:]
	}
}

// interrupt interrupts a request. It is noted first, so that either the request
// is found here, or who begins to serve it finds the note.
func (s *Server) interrupt(unique uint64) {
	s.early.add(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.interrupt(unique) {
			s.early.take(unique)
			return
		}
	}
}

// interruptAll interrupts whatever is being served: the mount has ended.
func (s *Server) interruptAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, r := range s.requests {
		r.interruptAny()
	}
}
