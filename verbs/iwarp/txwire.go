package iwarp

import (
	"hash/crc32"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	// The most FPDUs, iovecs (the kernel takes 1024) and, roughly, bytes of a
	// batch, which is what one writev sends.
	batchFPDUs = 128
	batchBytes = 256 << 10
	batchVecs  = 1024
	// fpduBytes is what an FPDU takes of a batch's header memory.
	fpduBytes = untaggedSize + readReqBody + maxTrailer
	// A poster hands over to runTransmit after this many batches, and Wait,
	// which has to read, after one.
	posterBatches = 8
)

// message is the message that is being cut into FPDUs.
type message struct {
	op    uint8
	entry *sendEntry // nil for an answer and a probe
	local mem.Vec
	// window and key permit an answer to read local.
	window *window
	key    uint32
	one    [1]mem.Seg

	stag       uint32
	to         uint64
	inv, msn   uint32
	off, total int
	// seg and segOff are where off is in local.
	seg, segOff int
	active      bool
}

// request makes m of a work request.
func (m *message) request(e *sendEntry) {
	*m = message{entry: e, local: e.local, total: e.total, active: true}
	switch e.Op {
	case verbs.OpSend:
		m.op = opSend
	case verbs.OpSendInvalidate:
		m.op, m.inv = opSendInvalidate, e.RKey
	case verbs.OpWrite:
		m.op, m.stag, m.to = opWrite, e.RKey, e.Addr
	case verbs.OpRead:
		m.op = opReadRequest
		m.local, m.total = nil, 0
	}
}

// answer makes m the Read Response to r.
func (m *message) answer(r *response) {
	*m = message{
		op:     opReadResponse,
		window: r.window,
		key:    r.req.srcSTag,
		stag:   r.req.sinkSTag,
		to:     r.req.sinkTO,
		total:  r.seg.Len,
		active: true,
	}
	m.one[0] = r.seg
}

// permit is a window that a batch reads from, up to byte end of the batch. last:
// the answer ends there. Once those bytes are sent, revoking the window is
// harmless: the peer has them, and may cause it before this side does anything
// else.
type permit struct {
	w    *window
	key  uint32
	end  int
	last bool
}

// batch is what the holder of the wire is sending. Its vectors point into
// head, into memory of posted requests, and into windows.
type batch struct {
	c       *conn
	msg     message
	head    []byte
	vecs    []unix.Iovec
	pos     int // vectors before it are sent
	bytes   int
	fpdus   int
	started bool // some of it is sent, some not
	sent    int  // bytes sent
	permits []permit
	granted int          // permits before it are used up
	done    []*sendEntry // requests that end within the batch

	park    bool
	full    bool // the socket took no more
	err     error
	writeFn func(fd uintptr) bool
}

func (b *batch) init(c *conn) {
	b.c = c
	b.head = make([]byte, 0, batchFPDUs*fpduBytes)
	b.writeFn = b.write
}

// build fills an empty batch. The error is a revoked window.
func (b *batch) build() error {
	t := &b.c.tx
	b.head, b.vecs, b.pos, b.bytes, b.fpdus = b.head[:0], b.vecs[:0], 0, 0, 0
	b.permits, b.done, b.sent, b.granted = b.permits[:0], b.done[:0], 0, 0
	for b.fpdus < batchFPDUs && b.bytes < batchBytes && len(b.vecs) < batchVecs-maxSGE-2 {
		if !b.msg.active {
			if !t.take(&b.msg) {
				break
			}
			b.msg.active = true
			if b.msg.window != nil {
				b.permits = append(b.permits, permit{w: b.msg.window, key: b.msg.key})
			}
		} else if b.fpdus == 0 && b.msg.window != nil {
			b.permits = append(b.permits, permit{w: b.msg.window, key: b.msg.key})
		}
		if err := b.fpdu(&b.msg); err != nil {
			return err
		}
		switch {
		case b.msg.window != nil:
			p := &b.permits[len(b.permits)-1]
			p.end, p.last = b.bytes, !b.msg.active
		case b.msg.active:
		case b.msg.entry != nil && b.msg.op != opReadRequest:
			b.done = append(b.done, b.msg.entry)
		}
	}
	return nil
}

// fpdu appends the next FPDU of m.
func (b *batch) fpdu(m *message) error {
	c := b.c
	h := header{op: m.op, inv: m.inv, msn: m.msn, mo: uint32(m.off), stag: m.stag, to: m.to + uint64(m.off)}
	limit := c.maxUntagged
	h.tagged = m.op == opWrite || m.op == opReadResponse
	if h.tagged {
		limit = c.maxTagged
	}
	n := min(m.total-m.off, limit)
	h.last = m.off+n == m.total
	body := n
	if m.op == opReadRequest {
		h.qn, body = queueRead, readReqBody
	}
	h.length = h.size() - lengthField + body

	start := len(b.head)
	b.head = h.append(b.head)
	if m.op == opReadRequest {
		e := m.entry
		r := readRequest{sinkSTag: e.sinkSTag, length: uint32(e.total), srcSTag: e.RKey, srcTO: e.Addr}
		b.head = r.append(b.head)
	}
	var crc uint32
	if c.crc {
		crc = crc32.Update(0, castagnoli, b.head[start:])
	}
	b.addHead(start)
	if m.window != nil {
		c.memory.mu.RLock()
		defer c.memory.mu.RUnlock()
		if !m.window.permits(m.key) {
			return errRevoked
		}
	}
	crc = b.addLocal(m, n, crc)
	start = len(b.head)
	b.head = appendTrailer(b.head, h.length, crc, c.crc)
	b.addHead(start)
	b.bytes += h.length + lengthField + h.trailer()
	b.fpdus++
	m.off += n
	m.active = !h.last
	return nil
}

// addLocal appends the next n bytes of m's memory.
func (b *batch) addLocal(m *message, n int, crc uint32) uint32 {
	local := m.local
	if m.window != nil {
		local = m.one[:]
	}
	for n > 0 {
		s := local[m.seg]
		k := min(n, s.Len-m.segOff)
		if k > 0 {
			p := s.Slice(m.segOff, k).Bytes()
			if b.c.crc {
				crc = crc32.Update(crc, castagnoli, p)
			}
			b.vecs = appendVector(b.vecs, p)
		}
		n -= k
		if m.segOff += k; m.segOff == s.Len {
			m.seg, m.segOff = m.seg+1, 0
		}
	}
	return crc
}

// addHead appends what was added to head from start on; a trailer and the
// header that follows share a vector.
func (b *batch) addHead(start int) {
	p := b.head[start:]
	if k := len(b.vecs); k > 0 && start > 0 && b.lastEndsAt(start) {
		b.vecs[k-1].SetLen(int(b.vecs[k-1].Len) + len(p))
		return
	}
	b.vecs = appendVector(b.vecs, p)
}

// lastEndsAt reports whether the last vector is the part of head that ends at n.
func (b *batch) lastEndsAt(n int) bool {
	v := &b.vecs[len(b.vecs)-1]
	k := int(v.Len)
	return k <= n && v.Base == &b.head[n-k]
}

// write makes system calls until the batch is sent, or the socket is full.
func (b *batch) write(fd uintptr) bool {
	for b.pos < len(b.vecs) {
		n, errno := b.writeOnce(fd)
		switch {
		case b.err != nil:
			return true
		case errno == syscall.EAGAIN:
			b.full = true
			return !b.park
		case errno != 0:
			b.err = errno
			return true
		}
		b.advance(n)
	}
	return true
}

func (b *batch) writeOnce(fd uintptr) (int, syscall.Errno) {
	c := b.c
	if b.granted < len(b.permits) {
		c.memory.mu.RLock()
		defer c.memory.mu.RUnlock()
		for _, p := range b.permits[b.granted:] {
			if !p.w.permits(p.key) {
				b.err = errRevoked
				return 0, 0
			}
		}
	}
	// Checked last: the goroutine that ends the connection waits for the wire
	// afterwards.
	if c.dead.Load() {
		b.err = verbs.ErrClosed
		return 0, 0
	}
	n, errno := writev(fd, b.vecs[b.pos:])
	if errno == 0 {
		b.sent += n
		for b.granted < len(b.permits) && b.permits[b.granted].end <= b.sent {
			if p := b.permits[b.granted]; p.last {
				p.w.answers.Add(-1)
			}
			b.granted++
		}
	}
	return n, errno
}

func (b *batch) advance(n int) {
	for n > 0 {
		v := &b.vecs[b.pos]
		if k := int(v.Len); n >= k {
			n -= k
			b.pos++
			continue
		}
		v.Base = offset(v, n)
		v.SetLen(int(v.Len) - n)
		n = 0
	}
	b.started = b.pos < len(b.vecs)
}

// transmit holds the wire until there is nothing left that may be sent. With
// park it waits for the socket; otherwise it leaves the rest to runTransmit.
func (c *conn) transmit(park bool) { c.transmitSome(park, posterBatches) }

func (c *conn) transmitSome(park bool, batches int) {
	t := &c.tx
	t.mu.Lock()
	if t.busy || t.stalled && !park || t.err != nil || c.dead.Load() {
		t.mu.Unlock()
		return
	}
	t.busy, t.stalled = true, false
	t.mu.Unlock()

	b := &t.out
	var err error
	for n := 0; ; n++ {
		if b.pos == len(b.vecs) {
			if err = b.build(); err != nil {
				break
			}
		}
		b.park, b.full, b.err = park, false, nil
		if b.pos < len(b.vecs) {
			if err = c.raw.Write(b.writeFn); err == nil {
				err = b.err
			}
			if err != nil {
				break
			}
		}
		unsent := b.pos < len(b.vecs)
		t.mu.Lock()
		if !unsent {
			for _, e := range b.done {
				t.finish(e)
			}
			b.done = b.done[:0]
		}
		yield := unsent || !park && n+1 >= batches && t.pending()
		if yield || !unsent && !t.pending() {
			t.busy, t.stalled = false, yield
			t.idle.Broadcast()
			t.mu.Unlock()
			if yield {
				c.wakeTransmit()
			}
			return
		}
		t.mu.Unlock()
	}
	c.sendFailed(err)
}

// sendFailed releases the wire after err.
func (c *conn) sendFailed(err error) {
	t := &c.tx
	revoked := err == errRevoked
	dead := c.dead.Load()
	t.mu.Lock()
	if !revoked && !dead {
		t.err = err
	}
	t.busy = false
	t.idle.Broadcast()
	t.mu.Unlock()
	switch {
	case dead:
	case revoked:
		c.abort("send", errRevoked)
	default:
		// Wait reads what came in before, perhaps the reason, and then
		// meets the end of the stream.
		c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// pending reports whether there is anything to build a batch from. mu is locked, and
// the caller holds the wire.
func (t *transmitter) pending() bool {
	if t.out.msg.active || t.open && (t.probe || len(t.answers) > 0) {
		return true
	}
	if t.next == t.tail {
		return false
	}
	switch t.ring[t.next%uint64(len(t.ring))].Op {
	case verbs.OpBind, verbs.OpLocalInvalidate:
		return true
	case verbs.OpRead:
		return t.open && len(t.reads) < t.c.readsOut
	}
	return t.open
}
