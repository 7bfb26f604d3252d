package ring

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// request is one request at a time, of an entry or of /dev/fuse, and the memory
// that its decoding needs.
type request struct {
	fs  fuse.RawFileSystem
	log *slog.Logger

	// in is the header and the operation's structure, one behind the other as
	// go-fuse's structures have them; out is the structure of the answer. Both are
	// apart from payload, where names and data come, and the answer goes.
	in  [(inHeaderLen + headerOpLen) / 8]uint64
	out [maxOut / 8]uint64
	// payload is all of it, data what came in it.
	payload, data []byte
	// crowded: too many others wait for locks already.
	crowded bool
	// n is how much of payload is the answer, if that has no structure.
	n int

	mu          sync.Mutex
	unique      uint64        // 0: none is being served
	cancel      chan struct{} // closed when the kernel has sent an interrupt
	interrupted bool          // it is closed
}

// maxOut is the size of the largest structure of an answer, fuse_create_out.
const maxOut = 144

var errShort = errors.New("a request is shorter than its operation's structure")

func newRequest(fs fuse.RawFileSystem, log *slog.Logger, payload []byte) *request {
	return &request{fs: fs, log: log, payload: payload, cancel: make(chan struct{})}
}

func (r *request) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.in)), unsafe.Sizeof(r.in))
}

func (r *request) header() *fuse.InHeader { return (*fuse.InHeader)(unsafe.Pointer(&r.in)) }

// load takes a request from an entry's header, which it copies. size is how many
// bytes of payload it has.
func (r *request) load(h *header, size uint32) error {
	b := r.bytes()
	copy(b, h.inOut[:inHeaderLen])
	if uint64(size) > uint64(len(r.payload)) {
		return fmt.Errorf("a request has %d bytes of payload, more than the %d that there are", size, len(r.payload))
	}
	total := uint64(r.header().Length)
	if total < inHeaderLen+uint64(size) || total > inHeaderLen+headerOpLen+uint64(size) {
		return fmt.Errorf("a request of %d bytes has %d bytes of payload", total, size)
	}
	n := copy(b[inHeaderLen:], h.op[:total-inHeaderLen-uint64(size)])
	clear(b[inHeaderLen+n:])
	r.data = r.payload[:size]
	return r.check(inHeaderLen + n)
}

// loadMessage takes a request as /dev/fuse has it, in one piece that r borrows.
func (r *request) loadMessage(msg []byte) error {
	if len(msg) < inHeaderLen {
		return errShort
	}
	b := r.bytes()
	copy(b, msg[:inHeaderLen])
	if int64(r.header().Length) != int64(len(msg)) {
		return fmt.Errorf("a request of %d bytes says that it has %d", len(msg), r.header().Length)
	}
	size := inHeaderLen
	if op := find(r.header().Opcode); op != nil {
		size = op.in
	}
	n := copy(b[:size], msg)
	clear(b[n:])
	r.data = msg[n:]
	return r.check(n)
}

// check looks whether the operation's structure is there, of which have bytes
// are, with the header.
func (r *request) check(have int) error {
	if op := find(r.header().Opcode); op != nil && have < op.in {
		return errShort
	}
	return nil
}

// serve has the file system answer, and puts the body of the answer into payload.
// It returns its length, which is 0 with an error.
func (r *request) serve() (n int, st fuse.Status) {
	h := r.header()
	op := find(h.Opcode)
	if op == nil {
		return 0, fuse.ENOSYS
	}
	out := unsafe.Slice((*byte)(unsafe.Pointer(&r.out)), unsafe.Sizeof(r.out))[:op.out]
	clear(out)
	r.n = 0
	if n, st, ok := r.servePollName(); ok {
		return n, st
	}
	st = r.call(op)
	if !st.Ok() {
		return 0, st
	}
	if r.n > 0 {
		return r.n, fuse.OK
	}
	return copy(r.payload, out), fuse.OK
}

// call answers a panic of the file system with EIO, as go-fuse does.
func (r *request) call(op *operation) (st fuse.Status) {
	defer func() {
		if p := recover(); p != nil {
			st = fuse.EIO
			r.log.Error("panic while a request was served", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	return op.do(r)
}

// name is the one name of the request.
func (r *request) name() string {
	name, _, _ := bytes.Cut(r.data, zero)
	return string(name)
}

// names are the two names of the request.
func (r *request) names() (first, second string, ok bool) {
	a, rest, _ := bytes.Cut(r.data, zero)
	b, _, ok := bytes.Cut(rest, zero)
	return string(a), string(b), ok
}

var zero = []byte{0}

// room is n bytes of payload for data.
func (r *request) room(n uint32) ([]byte, bool) {
	if uint64(n) > uint64(len(r.payload)) {
		return nil, false
	}
	return r.payload[:n:n], true
}

// take puts the result of a READ of buf, which is the start of payload, there,
// and ends its loan.
func (r *request) take(res fuse.ReadResult, buf []byte) fuse.Status {
	defer res.Done()
	if s, ok := res.(interface {
		Slices() ([][]byte, fuse.Status)
	}); ok {
		all, st := s.Slices()
		if !st.Ok() {
			return st
		}
		for _, b := range all {
			r.n += copy(buf[r.n:], b)
		}
		return fuse.OK
	}
	b, st := res.Bytes(buf)
	if !st.Ok() {
		return st
	}
	if len(b) > 0 && &b[0] != &buf[0] {
		b = buf[:copy(buf, b)]
	}
	r.n = len(b)
	return fuse.OK
}

// begin makes the request one that can be interrupted.
func (r *request) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unique = r.header().Unique
}

// end makes it none any more.
func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unique = 0
	if r.interrupted {
		r.interrupted, r.cancel = false, make(chan struct{})
	}
}

// interrupt interrupts the request if it is the one of that number.
func (r *request) interrupt(unique uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unique == 0 || r.unique != unique {
		return false
	}
	r.close()
	return true
}

// interruptAny interrupts the request, whichever it is.
func (r *request) interruptAny() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
}

// close closes cancel, once; mu is held.
func (r *request) close() {
	if !r.interrupted {
		r.interrupted = true
		close(r.cancel)
	}
}
