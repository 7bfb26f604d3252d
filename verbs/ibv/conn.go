//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rdmafs/rdmafs/verbs"
)

// conn implements verbs.Conn.
type conn struct {
	dev  *device
	dom  *domain
	cm   *cmID
	port int
	qp   *C.struct_ibv_qp
	qpn  C.uint32_t
	cqID uint64

	// Set during set-up, before the connection is shared.
	local, remote     netip.AddrPort
	private           []byte
	readsIn, readsOut int

	post sender
	recv receiver
	cq   poll

	// dead is set after err: the connection has ended.
	dead atomic.Bool

	mu sync.Mutex // a leaf: no call into C while it is held
	// err is why the connection ended; closed, that this side closed it.
	err    error
	closed bool
	// sends and recvs are what has been posted, windows those of the
	// connection, keys those that are bound.
	sends   sendRing
	recvs   recvRing
	done    completions
	windows map[*window]struct{}
	keys    map[uint32]*window // by the key without its last byte

	watch   sync.WaitGroup // runEvents
	unwatch context.CancelFunc
	once    sync.Once
}

// newConn makes the queue pair on a resolved identifier, or a request's; its
// peer is remote from the start, as runAsync may name it. It takes m, also when
// it fails.
func (d *device) newConn(m *cmID, dom *domain, remote netip.AddrPort, o *verbs.ConnOptions) (*conn, error) {
	id := m.identity()
	c := &conn{
		dev: d, dom: dom, cm: m, port: id.port,
		local: id.local, remote: remote,
		readsIn: o.ReadsIn, readsOut: o.ReadsOut,
		windows: make(map[*window]struct{}),
		keys:    make(map[uint32]*window),
	}
	c.sends.init(o.SendQueue)
	c.recvs.ring = make([]uint64, o.RecvQueue)
	c.done.ring = make([]verbs.Completion, o.SendQueue+o.RecvQueue)
	if err := c.makeQueues(o); err != nil {
		d.unuse(dom)
		m.close()
		return nil, d.memoryHint(dom, err)
	}
	dom.adapter.add(c)
	return c, nil
}

func (c *conn) makeQueues(o *verbs.ConnOptions) error {
	if err := c.dev.Hold(); err != nil {
		return err
	}
	sends := len(c.sends.ring)
	fd := C.rv_create_cq(c.dom.adapter.ctx, C.int(sends+o.RecvQueue), &c.cq.ch, &c.cq.cq)
	err := errno(fd)
	if err == nil {
		c.cqID = c.cq.id()
		c.cq.takeEvents = c.cq.readEvents
		c.cq.events, err = newPoller(int(fd), "completions")
		if err == nil {
			err = errno(C.rv_create_qp(c.cm.id, c.dom.pd, c.cq.cq, C.int(sends), C.int(o.RecvQueue),
				C.int(c.dom.caps.MaxSGE), &c.qp, &c.qpn))
			if err != nil {
				c.cq.events.close()
			}
		}
		if err != nil {
			C.rv_destroy_cq(c.cq.cq, c.cq.ch)
		}
	}
	if err != nil {
		c.dev.Release()
		return fmt.Errorf("cannot make a queue pair on RDMA device %s: %w", c.dom.adapter.name, err)
	}
	return nil
}

// start watches the events of the connection.
func (c *conn) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.unwatch = cancel
	c.watch.Add(1)
	go c.runEvents(ctx)
}

func (c *conn) LocalAddr() netip.AddrPort  { return c.local }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }
func (c *conn) PrivateData() []byte        { return c.private }
func (c *conn) ReadsOut() int              { return c.readsOut }

// runEvents waits for the event that ends the connection, or for the end of ctx,
// by which Close stops it.
func (c *conn) runEvents(ctx context.Context) {
	defer c.watch.Done()
	for {
		e, err := c.cm.next(ctx)
		if err == nil {
			switch e.kind {
			case C.RV_DISCONNECTED, C.RV_DEVICE_REMOVAL, C.RV_ADDR_CHANGE, C.RV_CONNECT_ERROR:
				err = &stepError{kind: int(e.kind), status: e.status}
			default:
				continue // RV_TIMEWAIT_EXIT
			}
		}
		c.fail(c.lost("receive", err))
		return
	}
}

// ended is the reason for the connection's end, nil while it lives.
func (c *conn) ended() error {
	if !c.dead.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	return c.err
}

func (c *conn) lost(op string, err error) error {
	return &verbs.ConnError{Op: op, Remote: c.remote, Err: err}
}

// fail ends the connection with err, unless it has ended already. It only sets
// the state and wakes Wait: Wait and Close tear down.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.dead.Store(true)
	c.cq.events.wake()
}

// teardown destroys the queues: when it returns, the adapter touches no memory any
// more, and what completed before is in c.done. It is the one place where a
// connection ends, whatever the reason, and called with the connection dead and
// cq.waiting held.
func (c *conn) teardown() {
	c.post.mu.Lock()
	defer c.post.mu.Unlock()
	c.recv.mu.Lock()
	defer c.recv.mu.Unlock()
	c.cq.mu.Lock()
	defer c.cq.mu.Unlock()
	if c.cq.gone {
		return
	}
	c.cq.gone = true
	c.dom.adapter.remove(c)
	// Fails if the peer or the device has disconnected before.
	_ = C.rv_disconnect(c.cm.id)
	for c.drain() {
	}
	// Some adapters cannot destroy a queue pair that has windows bound.
	for w := range c.windows {
		w.dealloc()
	}
	clear(c.windows)
	C.rv_destroy_qp(c.cm.id)
	C.rv_destroy_cq(c.cq.cq, c.cq.ch)
}

// Close implements verbs.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.fail(verbs.ErrClosed)
		c.cq.waiting.Lock() // Wait was woken by fail
		c.teardown()
		c.cq.events.forget()
		c.cq.events.close()
		c.cq.waiting.Unlock()
		if c.unwatch != nil {
			c.unwatch()
		}
		c.watch.Wait()
		c.cm.close()
		c.dev.unuse(c.dom)
		c.dev.Release()
	})
	return nil
}

// memoryHint adds what the limit on locked memory may have to do with err.
func (d *device) memoryHint(dom *domain, err error) error {
	if errors.Is(err, syscall.ENOMEM) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return errors.Join(err, dom.pinError(syscall.ENOMEM, 0))
	}
	return err
}
