package iwarp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/stream"
)

// conn implements verbs.Conn.
type conn struct {
	dev    *device
	sock   *net.TCPConn
	raw    syscall.RawConn
	local  netip.AddrPort
	remote netip.AddrPort

	// Set during set-up, before the connection is shared.
	private           []byte
	crc               bool
	maxTagged         int // payload of one FPDU
	maxUntagged       int
	readsIn, readsOut int

	tx     transmitter
	rx     receiver
	rq     receives
	cq     queue
	memory memory

	// heard is set once a byte has been received since set-up.
	heard atomic.Bool
	// dead is set after end: no memory may be touched any more.
	dead atomic.Bool
	end  struct {
		mu     sync.Mutex
		err    error
		closed bool
	}

	pending chan struct{} // capacity 1: work for runTransmit
	stop    chan struct{}
	stopped chan struct{} // nil when runTransmit was never started
	once    sync.Once
}

// newConn makes the queue pair of a connection that is being set up. It
// takes sock, and holds the device until Close.
func (d *device) newConn(sock *net.TCPConn, o *verbs.ConnOptions) (*conn, error) {
	raw, err := tune(sock)
	if err != nil {
		return nil, err
	}
	c := &conn{
		dev:     d,
		sock:    sock,
		raw:     raw,
		local:   addrPort(sock.LocalAddr()),
		remote:  addrPort(sock.RemoteAddr()),
		readsIn: o.ReadsIn, readsOut: o.ReadsOut,
		pending: make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	c.maxTagged, c.maxUntagged = maxPayload, maxPayload
	if d.config.AlignToMSS {
		mss, err := segmentSize(raw)
		if err != nil {
			return nil, err
		}
		// MULPDU of RFC 5044 section 4.1, then whole words of payload.
		mulpdu := mss - (lengthField + crcSize + mss%4)
		c.maxTagged = (mulpdu + lengthField - taggedSize) &^ 3
		c.maxUntagged = (mulpdu + lengthField - untaggedSize) &^ 3
	}
	c.memory.keys = make(map[uint32]*window)
	c.tx.init(c, o.SendQueue)
	c.rx.init(c)
	c.rq.ring = make([]verbs.RecvWR, o.RecvQueue)
	c.cq.ring = make([]verbs.Completion, o.SendQueue+o.RecvQueue)
	c.cq.interrupt = func() { c.sock.SetReadDeadline(past) }
	if err := d.Hold(); err != nil {
		return nil, err
	}
	return c, nil
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// start starts the connection. The initiator may send at once.
func (c *conn) start(initiator bool) {
	c.stopped = make(chan struct{})
	c.tx.mu.Lock()
	c.tx.open = initiator
	c.tx.mu.Unlock()
	go c.runTransmit(initiator)
	if initiator {
		c.transmit(false)
	}
}

func (c *conn) LocalAddr() netip.AddrPort  { return c.local }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }
func (c *conn) PrivateData() []byte        { return c.private }
func (c *conn) ReadsOut() int              { return c.readsOut }

// Stalled implements verbs.Stalling.
func (c *conn) Stalled() error { return stream.Stalled(c.raw) }

// ended is the reason for the connection's end, nil while it lives.
func (c *conn) ended() error {
	if !c.dead.Load() {
		return nil
	}
	c.end.mu.Lock()
	defer c.end.mu.Unlock()
	if c.end.closed {
		return verbs.ErrClosed
	}
	return c.end.err
}

func (c *conn) lost(op string, err error) error {
	return &verbs.ConnError{Op: op, Remote: c.remote, Err: err}
}

// fail ends the connection with err, unless it has ended already. It only sets
// the state and wakes Wait: drainSends waits for the send side.
func (c *conn) fail(err error) {
	c.end.mu.Lock()
	if c.end.err == nil {
		c.end.err = err
	}
	c.end.mu.Unlock()
	c.dead.Store(true)
	c.sock.SetWriteDeadline(past)
	c.cq.wake()
}

// drainSends returns when the send side of a dead connection touches no memory
// any more. The holder of the wire must not call it.
func (c *conn) drainSends() {
	c.tx.mu.Lock()
	for c.tx.busy {
		c.tx.idle.Wait()
	}
	c.tx.mu.Unlock()
}

// abort ends the connection because of what the peer did. It sends a Terminate
// message for a violation if the wire is at the start of an FPDU, and shuts down
// the stream in any case, so that the peer knows before Close. The holder of the
// wire must not call it.
func (c *conn) abort(op string, err error) {
	c.fail(c.lost(op, err))
	c.drainSends()
	var b []byte
	if v, ok := err.(*violation); ok && c.tx.mayTerminate() {
		b = appendTerminate(nil, v.code, c.crc)
	}
	// Best effort: the connection is dead either way.
	c.raw.Control(func(fd uintptr) {
		if b != nil {
			unix.Write(int(fd), b)
		}
		unix.Shutdown(int(fd), unix.SHUT_WR)
	})
}

// Close implements verbs.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.end.mu.Lock()
		c.end.closed = true
		c.end.mu.Unlock()
		c.fail(verbs.ErrClosed)
		close(c.stop)
		if c.stopped != nil {
			<-c.stopped
		}
		c.drainSends()
		// Wait was woken by fail; a later one sees the end before it
		// touches anything.
		c.rx.mu.Lock()
		c.rx.disarm()
		c.rx.mu.Unlock()
		c.memory.revokeAll()
		c.sock.Close()
		c.dev.Release()
	})
	return nil
}

// runTransmit sends what posters and Wait could not send because the socket was
// full, and probes a silent peer.
//
// Linux' siw as a server can miss the wake-up for the first FPDU when that
// comes between its MPA reply and the installation of its socket callbacks.
// Another segment wakes it; a zero-length RDMA Write touches nothing.
func (c *conn) runTransmit(initiator bool) {
	defer close(c.stopped)
	delay := firstProbe
	t := time.NewTimer(delay)
	defer t.Stop()
	if !initiator {
		t.Stop()
	}
	for {
		select {
		case <-c.stop:
			return
		case <-c.pending:
			c.transmit(true)
		case <-t.C:
			if c.heard.Load() {
				continue
			}
			c.tx.mu.Lock()
			c.tx.probe = true
			c.tx.mu.Unlock()
			c.transmit(true)
			if delay *= 2; delay <= lastProbe {
				t.Reset(delay)
			}
		}
	}
}

// The delays before the first and the last probe; each is twice the one before.
const (
	firstProbe = 50 * time.Millisecond
	lastProbe  = 3200 * time.Millisecond
)

// wakeTransmit makes runTransmit send what is left.
func (c *conn) wakeTransmit() {
	select {
	case c.pending <- struct{}{}:
	default:
	}
}

// Wait implements verbs.QP: it runs the receive side.
func (c *conn) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	if len(wc) == 0 {
		return 0, &verbs.UsageError{Op: verbs.OpRecv, Why: "Wait without room for a completion"}
	}
	c.rx.mu.Lock()
	defer c.rx.mu.Unlock()
	c.rx.arm(ctx)
	for {
		err := c.ended()
		if err == verbs.ErrClosed {
			return 0, err
		}
		if err != nil {
			c.drainSends()
		} else if int(c.cq.n.Load()) < len(wc) {
			moved, rerr := c.rx.step()
			if rerr != nil {
				c.abort("receive", rerr)
				continue
			}
			if moved {
				continue
			}
		}
		if n, sends := c.cq.take(wc); n > 0 {
			c.tx.unreaped.Add(int32(-sends))
			c.rq.unreaped.Add(int32(sends - n))
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := c.rx.read(); err != nil {
			c.abort("receive", c.tx.cause(err))
		}
	}
}
