package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// packetState is where a packet is on its way.
type packetState uint8

const (
	packetIdle    packetState = iota
	packetQueued              // waits in the outbox
	packetWriting             // its bytes are being written
	packetSent                // the socket has taken all of them
	packetCopied              // it is being finished from a copy
	packetFailed              // its last byte never reached the socket
)

// packet is one record to send. The outbox borrows it, and the memory that bufs
// names, from enqueue until withdraw or wait has returned.
type packet struct {
	mark [4]byte
	bufs [][]byte
	size int
	wake chan struct{} // holds a token when the packet has left packetWriting

	// Guarded by outbox.mu.
	state  packetState
	detach bool
}

// pack makes the packet of the message in w, with payloads where they are
// marked.
func (p *packet) pack(w *xdr.Writer, payloads []mem.Vec) {
	binary.BigEndian.PutUint32(p.mark[:], lastFragment|uint32(w.Len()))
	p.bufs = append(p.bufs[:0], p.mark[:])
	p.size = len(p.mark) + w.Len()
	stream, at := w.Bytes(), 0
	for _, m := range w.Marks() {
		p.bufs = append(p.bufs, stream[at:m.Off])
		at = m.Off
		for _, s := range payloads[m.Index] {
			if s.Len > 0 {
				p.bufs = append(p.bufs, s.Bytes())
			}
		}
		if pad := xdr.Pad(m.Len); pad > 0 {
			p.bufs = append(p.bufs, padding[:pad])
		}
	}
	if at < len(stream) {
		p.bufs = append(p.bufs, stream[at:])
	}
	p.state, p.detach = packetIdle, false
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	select {
	case <-p.wake:
	default:
	}
}

var padding [4]byte

// outbox puts packets onto a connection, in whole and in order.
type outbox struct {
	conn net.Conn
	// raw is that of conn, if it is a socket; writeFD is in writeNow.
	raw     syscall.RawConn
	writeFD func(fd uintptr) bool
	// over is conn, if it is no socket and gathers by itself.
	over BuffersWriter
	// fail is called with the first write error, with no lock held.
	fail  func(error)
	bytes *atomic.Uint64

	runners sync.WaitGroup

	mu sync.Mutex
	// busy is set while one goroutine, the holder, owns batch and bufs and writes.
	busy        bool
	closed      bool
	peerTimeout time.Duration // how long the peer may take to read a batch, if set
	interrupted bool          // the write deadline was moved to stop the holder
	queue       []*packet
	idle        sync.Cond // busy was cleared

	batch []span      // what the holder writes; changed under mu
	bufs  net.Buffers // their bytes not written yet
	done  int         // bytes of batch written
	spare [][]byte    // memory for bufs
}

// BuffersWriter is what a conn over a socket may be for which many small writes are dear, as each is a record of TLS.
type BuffersWriter interface {
	// WriteBuffers writes bufs, as they are one after the other, and returns how many bytes it has taken; an error
	// if these are not all. When a deadline has passed it goes on with the next call, behind what it has taken.
	WriteBuffers(bufs [][]byte) (n int, err error)
	// Unsent reports whether something that was taken is not sent. A WriteBuffers, of nothing even, sends it.
	Unsent() bool
}

// span is a packet's share of a batch. p is nil when its owner has it back.
type span struct {
	p    *packet
	size int
}

func (o *outbox) init(conn net.Conn, bytes *atomic.Uint64, fail func(error)) {
	o.conn, o.bytes, o.fail = conn, bytes, fail
	o.idle.L = &o.mu
	o.raw = nil
	o.over, _ = conn.(BuffersWriter)
	if socket, ok := conn.(*net.TCPConn); ok {
		o.raw, _ = socket.SyscallConn()
		o.writeFD = o.writev
	}
}

// enqueue sends p. If the socket is free, the caller writes p, and returns when it
// is written or ctx has ended; otherwise the holder writes it later. withdraw or
// wait returns the outcome.
func (o *outbox) enqueue(ctx context.Context, p *packet) {
	o.mu.Lock()
	switch {
	case o.closed:
		p.state = packetFailed
		o.mu.Unlock()
		return
	case o.busy:
		p.state = packetQueued
		o.queue = append(o.queue, p)
		o.mu.Unlock()
		return
	}
	o.busy = true
	p.state = packetQueued
	o.queue = append(o.queue, p)
	o.load()
	o.mu.Unlock()

	// A write that does not wait needs nothing that would interrupt it.
	if ctx.Done() != nil && !o.writeNow() {
		stop := context.AfterFunc(ctx, func() { o.interrupt(p) })
		defer stop()
	}
	if o.write(p) {
		return
	}
	// What is left to write is other packets, or a copy of the rest of p.
	go o.runFlush()
}

// writeNow writes what the socket takes of bufs without waiting, and reports whether that
// is everything. An error shows in the write that follows. The holder calls.
func (o *outbox) writeNow() (all bool) {
	return o.raw != nil && o.raw.Write(o.writeFD) == nil && len(o.bufs) == 0
}

// writev is one attempt; true: it is not to be repeated when the socket has room.
func (o *outbox) writev(fd uintptr) bool {
	n, err := unix.Writev(int(fd), o.bufs[:min(len(o.bufs), maxVector)])
	if err != nil {
		return true
	}
	o.written(n)
	return true
}

// written takes n bytes off bufs. The holder calls.
func (o *outbox) written(n int) {
	o.done += n
	o.bytes.Add(uint64(n))
	for n > 0 || len(o.bufs) > 0 && len(o.bufs[0]) == 0 {
		k := min(n, len(o.bufs[0]))
		n -= k
		if o.bufs[0] = o.bufs[0][k:]; len(o.bufs[0]) == 0 {
			o.bufs[0] = nil
			o.bufs = o.bufs[1:]
		}
	}
}

// maxVector is how many pieces writeNow gives to the kernel; it takes IOV_MAX, 1024.
const maxVector = 64

// runFlush writes until the queue is empty. It inherits busy, and a reference
// of runners.
func (o *outbox) runFlush() {
	defer o.runners.Done()
	o.write(nil)
}

// load makes a batch of the queue. mu is held, the holder calls.
func (o *outbox) load() {
	o.done, o.batch, o.bufs = 0, o.batch[:0], o.spare[:0]
	for _, p := range o.queue {
		p.state = packetWriting
		o.batch = append(o.batch, span{p, p.size})
		o.bufs = append(o.bufs, p.bufs...)
	}
	clear(o.queue)
	o.queue, o.spare = o.queue[:0], o.bufs
}

// limitPeer bounds the time for a write that waits. The holder calls.
func (o *outbox) limitPeer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peerTimeout > 0 && !o.interrupted {
		_ = o.conn.SetWriteDeadline(time.Now().Add(o.peerTimeout)) // writing reports a closed connection
	}
}

// enqueueAll is enqueue of several packets, in order, that are not cancelled.
func (o *outbox) enqueueAll(ps []*packet) {
	o.mu.Lock()
	state := packetQueued
	if o.closed {
		state = packetFailed
	}
	for _, p := range ps {
		p.state = state
	}
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.queue = append(o.queue, ps...)
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	o.load()
	o.mu.Unlock()
	if !o.write(ps[len(ps)-1]) {
		go o.runFlush()
	}
}

// write is the work of the holder. It returns true when it has cleared busy, and
// false, with a reference of runners taken, when own is finished and there is more
// to write.
func (o *outbox) write(own *packet) bool {
	for {
		err := error(nil)
		if o.unsent() && !o.writeNow() {
			o.limitPeer()
			err = o.writeAll()
		}
		o.mu.Lock()
		if o.interrupted && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
			err = o.conn.SetWriteDeadline(time.Time{})
			o.interrupted = false
		}
		if err != nil {
			o.abort()
			o.mu.Unlock()
			o.fail(err)
			return true
		}
		o.release()
		if !o.unsent() {
			if o.closed || len(o.queue) == 0 {
				o.abort()
				o.mu.Unlock()
				return true
			}
			o.load()
		}
		if own != nil && own.state != packetWriting { // its owner is the caller: not reused
			o.runners.Add(1)
			o.mu.Unlock()
			return false
		}
		o.mu.Unlock()
	}
}

// unsent reports whether anything of the batch is still to be written. The holder calls.
func (o *outbox) unsent() bool { return len(o.bufs) > 0 || o.over != nil && o.over.Unsent() }

// writeAll writes the batch, and waits while the peer does not take it. The holder calls.
func (o *outbox) writeAll() error {
	if o.over != nil {
		n, err := o.over.WriteBuffers(o.bufs)
		o.written(n)
		return err
	}
	n, err := o.bufs.WriteTo(o.conn)
	o.done += int(n)
	o.bytes.Add(uint64(n))
	return err
}

// release returns the packets of the batch that are written, or that will be
// finished from a copy, to their owners. mu is held, the holder calls.
func (o *outbox) release() {
	end, next := 0, 0 // of the packet in the batch; index in bufs of its first byte left
	for i := range o.batch {
		s := &o.batch[i]
		end += s.size
		left := min(end-o.done, s.size)
		from := next
		for n := left; n > 0; next++ {
			n -= len(o.bufs[next])
		}
		switch {
		case s.p == nil:
		case left <= 0:
			s.p.finish(packetSent)
			s.p = nil
		case s.p.detach:
			for k := from; k < next; k++ {
				o.bufs[k] = slices.Clone(o.bufs[k])
			}
			s.p.finish(packetCopied)
			s.p = nil
		}
	}
}

// abort ends the work of the holder: nothing more of the batch or the queue is
// written. Packets that were written completely count as sent. mu is held.
func (o *outbox) abort() {
	end := 0 // of the packet in the batch
	for _, s := range o.batch {
		end += s.size
		switch {
		case s.p == nil:
		case end <= o.done:
			s.p.finish(packetSent)
		default:
			s.p.finish(packetFailed)
		}
	}
	for _, p := range o.queue {
		p.finish(packetFailed)
	}
	clear(o.batch)
	clear(o.queue)
	clear(o.spare)
	o.batch, o.queue, o.bufs = o.batch[:0], o.queue[:0], nil
	o.busy = false
	o.idle.Broadcast()
}

// finish sets the state of p and wakes its owner. outbox.mu is held.
func (p *packet) finish(s packetState) {
	p.state = s
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// interrupt makes the holder finish p from a copy if p is being written.
func (o *outbox) interrupt(p *packet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.state == packetWriting {
		p.detach = true
		o.interrupted = true
		_ = o.conn.SetWriteDeadline(time.Unix(1, 0)) // a closed connection stops the holder too
	}
}

// wait returns when the outbox does not access p any more.
func (o *outbox) wait(p *packet) packetState {
	for {
		o.mu.Lock()
		s := p.state
		o.mu.Unlock()
		if s != packetQueued && s != packetWriting {
			return s
		}
		<-p.wake
	}
}

// withdraw is wait for a caller that does not need p to be sent any more: a packet
// in the queue is removed from it, and one that is being written is awaited until
// ctx ends.
func (o *outbox) withdraw(ctx context.Context, p *packet) packetState {
	o.mu.Lock()
	if p.state == packetQueued {
		if i := slices.Index(o.queue, p); i >= 0 {
			o.queue = slices.Delete(o.queue, i, i+1)
		}
		p.state = packetFailed
	}
	s := p.state
	o.mu.Unlock()
	if s != packetWriting {
		return s
	}
	select {
	case <-p.wake:
	case <-ctx.Done():
		o.interrupt(p)
	}
	return o.wait(p)
}

// limitDrain bounds the time in which everything that is queued must be written.
func (o *outbox) limitDrain(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peerTimeout = 0
	_ = o.conn.SetWriteDeadline(time.Now().Add(d)) // a closed connection is as good
}

// close refuses further packets and returns when nothing is being written. The
// connection must have been closed, or accept what is in the queue.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	for o.busy {
		o.idle.Wait()
	}
	o.mu.Unlock()
	o.runners.Wait()
}
