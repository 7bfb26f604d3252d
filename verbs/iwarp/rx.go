package iwarp

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/spin"
)

const (
	// rxBuffer holds headers, trailers and small FPDUs. What of a payload
	// is in it already is copied; the rest is read into place.
	rxBuffer = 16 << 10
	// From directFPDU on, the segment after one of a long message is
	// expected to be like it, and only its header is read ahead.
	directFPDU = 8 << 10
)

type phase uint8

const (
	atHeader phase = iota
	atPayload
	atTrailer
)

// receiver is the receive side: a machine that steps through FPDUs and can
// stop between any two bytes.
type receiver struct {
	c *conn
	// mu is held by Wait, and guards all fields below.
	mu sync.Mutex

	buf    []byte
	lo, hi int // buf[lo:hi] is read and not consumed

	open    bool // an FPDU has come in
	phase   phase
	h       header
	dst     []byte // the rest of the payload goes here
	window  *window
	crc     uint32
	checked bool // the CRC of this FPDU is known to be good

	ctl     [ctlSize]byte // body of a Read Request or Terminate
	ctlLen  int
	sendMSN uint32
	readMSN uint32
	// sendOff is how much of an unfinished Send is placed; recv is for it.
	sendOff  int
	sendOpen bool
	sendOp   uint8
	sendInv  uint32
	recv     verbs.RecvWR
	// writeOpen: the tagged message of a Write is unfinished and goes on at
	// writeTO of writeSTag.
	writeOpen bool
	writeSTag uint32
	writeTO   uint64
	readOpen  bool // a Read Response is unfinished

	vecs   []unix.Iovec
	n      int
	err    error
	readFn func(fd uintptr) bool
	// spin polls the socket, once in a read between messages, before the runtime waits for it; spinFn is its Poll, but in tests,
	// pollFn is poll.
	spin   spin.Spin
	spinFn func(try func() bool) bool
	polled bool
	fd     uintptr
	errno  syscall.Errno
	pollFn func() bool

	// done and disarmFn are of the context for which a wake-up is set.
	done     <-chan struct{}
	disarmFn func() bool
}

// ctlSize bounds what is taken of a Terminate message: its control word, a
// segment length, and the headers at fault.
const ctlSize = 64

// errPeerClosed is an end of stream: on iWARP any close is an abortive one.
var errPeerClosed = fmt.Errorf("peer closed the connection: %w", io.EOF)

func (r *receiver) init(c *conn) {
	r.c = c
	r.buf = make([]byte, rxBuffer)
	r.vecs = make([]unix.Iovec, 0, 2)
	r.sendMSN, r.readMSN = 1, 1
	r.readFn, r.pollFn, r.spinFn = r.readOnce, r.poll, r.spin.Poll
}

// arm makes the end of ctx wake Wait. Successive Waits mostly have the same ctx.
func (r *receiver) arm(ctx context.Context) {
	done := ctx.Done()
	if done == r.done {
		return
	}
	r.disarm()
	if done != nil {
		r.done = done
		r.disarmFn = context.AfterFunc(ctx, r.c.cq.wake)
	}
}

func (r *receiver) disarm() {
	if r.disarmFn != nil {
		r.disarmFn()
	}
	r.done, r.disarmFn = nil, nil
}

// read waits for bytes and reads them. It returns early when there is a
// completion, or when the context or the connection ended.
func (r *receiver) read() error {
	r.n, r.err, r.polled = 0, nil, false
	r.vecs = r.vecs[:0]
	if r.phase == atPayload && len(r.dst) > 0 {
		r.vecs = appendVector(r.vecs, r.dst)
		tail := r.buf
		if !r.h.last && r.h.payload() >= directFPDU {
			tail = tail[:r.h.trailer()+untaggedSize]
		}
		r.vecs = appendVector(r.vecs, tail)
		r.lo, r.hi = 0, 0
	} else {
		r.hi = copy(r.buf, r.buf[r.lo:r.hi])
		r.lo = 0
		r.vecs = appendVector(r.vecs, r.buf[r.hi:])
	}
	err := r.c.raw.Read(r.readFn)
	if r.c.cq.unpark() {
		r.c.sock.SetReadDeadline(noDeadline)
	}
	switch {
	case r.n > 0:
		return nil
	case r.err != nil:
		return r.err
	case err != nil && !isTimeout(err):
		return err
	}
	return nil
}

// readOnce makes one system call, or has the runtime wait for the socket.
func (r *receiver) readOnce(fd uintptr) bool {
	c := r.c
	if r.window != nil {
		c.memory.mu.RLock()
		defer c.memory.mu.RUnlock()
		if !r.window.permits(r.h.stag) {
			r.err = violate(ddpInvalidSTag, "key %#x revoked while the peer was writing", r.h.stag)
			return true
		}
	}
	n, errno := readv(fd, r.vecs)
	if errno == syscall.EAGAIN && !r.polled && r.phase == atHeader && !r.writeOpen && !r.readOpen {
		r.polled, r.fd = true, fd
		if r.spinFn(r.pollFn) {
			n, errno = r.n, r.errno
		}
		r.n = 0
	}
	switch {
	case errno == syscall.EAGAIN:
		return !c.cq.park() || c.dead.Load() || isDone(r.done)
	case errno != 0:
		r.err = errno
		return true
	case n == 0:
		r.err = errPeerClosed
		return true
	}
	if !c.heard.Load() {
		c.heard.Store(true)
	}
	r.n = n
	if r.phase == atPayload && len(r.dst) > 0 {
		k := min(n, len(r.dst))
		r.placed(k)
		n -= k
	}
	r.hi += n
	return true
}

// poll is one more attempt, between FPDUs, where no window is concerned. It reports whether there is something to be looked at.
func (r *receiver) poll() bool {
	r.n, r.errno = readv(r.fd, r.vecs)
	return r.errno != syscall.EAGAIN || r.c.cq.n.Load() > 0 || r.c.dead.Load()
}

// placed advances dst by k bytes; the window, if any, is locked.
func (r *receiver) placed(k int) {
	if r.c.crc && !r.checked {
		r.crc = crc32.Update(r.crc, castagnoli, r.dst[:k])
	}
	r.dst = r.dst[k:]
}

// step makes the next step that the received bytes allow, and reports whether
// there was one. Its error is a violation by the peer and ends the connection.
func (r *receiver) step() (bool, error) {
	switch r.phase {
	case atHeader:
		return r.stepHeader()
	case atPayload:
		return r.stepPayload()
	}
	return r.stepTrailer()
}

func (r *receiver) stepHeader() (bool, error) {
	b := r.buf[r.lo:r.hi]
	h, n, err := parseHeader(b)
	if err != nil || n == 0 {
		return false, err
	}
	r.h, r.checked, r.crc = h, false, 0
	if r.c.crc {
		if whole := lengthField + h.length + h.trailer(); whole <= len(b) {
			if crc32.Checksum(b[:whole-crcSize], castagnoli) != trailerCRC(b[whole-crcSize:]) {
				return false, violate(mpaBadCRC, "FPDU of %d bytes", h.length)
			}
			r.checked = true
		} else {
			r.crc = crc32.Update(0, castagnoli, b[:n])
		}
	}
	r.dst, r.window = nil, nil
	if err := r.begin(); err != nil {
		return false, err
	}
	r.lo += n
	r.phase = atPayload
	return true, nil
}

func (r *receiver) stepPayload() (bool, error) {
	if len(r.dst) > 0 && r.lo < r.hi {
		if err := r.copyPayload(); err != nil {
			return false, err
		}
	}
	if len(r.dst) > 0 {
		return false, nil
	}
	r.window = nil
	r.phase = atTrailer
	return true, nil
}

// copyPayload places what is in the buffer.
func (r *receiver) copyPayload() error {
	if r.window != nil {
		m := &r.c.memory
		m.mu.RLock()
		defer m.mu.RUnlock()
		if !r.window.permits(r.h.stag) {
			return violate(ddpInvalidSTag, "key %#x revoked while the peer was writing", r.h.stag)
		}
	}
	k := copy(r.dst, r.buf[r.lo:r.hi])
	r.lo += k
	r.placed(k)
	return nil
}

func (r *receiver) stepTrailer() (bool, error) {
	n := r.h.trailer()
	if r.hi-r.lo < n {
		return false, nil
	}
	b := r.buf[r.lo : r.lo+n]
	if r.c.crc && !r.checked {
		if crc32.Update(r.crc, castagnoli, b[:n-crcSize]) != trailerCRC(b[n-crcSize:]) {
			return false, violate(mpaBadCRC, "FPDU of %d bytes", r.h.length)
		}
	}
	r.lo += n
	r.phase = atHeader
	return true, r.finish()
}
