package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxPayloads bounds the payloads of one reply.
const maxPayloads = 64

// serverConn is one client's connection.
type serverConn struct {
	s    *server
	conn net.Conn
	peer string
	out  outbox
	sent atomic.Uint64

	active  atomic.Int32 // calls received and not answered
	work    chan *buffer // calls for workers
	workers int          // number started; runConn's
	wg      sync.WaitGroup
}

func newServerConn(s *server, conn net.Conn) *serverConn {
	c := &serverConn{s: s, conn: conn, peer: conn.RemoteAddr().String(), work: make(chan *buffer)}
	c.out.init(conn, &c.sent, func(error) { _ = conn.Close() })
	c.out.patience = s.cfg.Idle
	return c
}

// goAway stops the reading, and the writing after a while. It is called with
// server.mu held.
func (c *serverConn) goAway() {
	c.out.hurry(goodbye)
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection is as good
}

// runConn reads calls and hands them to workers until the connection ends or
// the server stops.
func (c *serverConn) runConn(ctx context.Context) {
	defer c.s.drop(c)
	err := c.read(ctx)
	close(c.work)
	switch {
	case err == io.EOF, ctx.Err() != nil:
	case errors.Is(err, errIdle):
		c.s.cfg.Log.Info(fmt.Sprintf("%s: closed, it was idle", c.peer))
	default:
		c.s.cfg.Log.Info(fmt.Sprintf("%s: %v", c.peer, err))
	}
	if err != io.EOF && ctx.Err() == nil {
		_ = c.conn.Close() // no answer can be wanted any more
	}
	c.wg.Wait()
	c.out.close()
	_ = c.conn.Close()
}

var errIdle = errors.New("idle")

// read returns io.EOF when the client has ended its half of the connection.
func (c *serverConn) read(ctx context.Context) error {
	in := newRecords(c.conn)
	for {
		if err := c.await(in); err != nil {
			return err
		}
		if err := in.next(); err != nil {
			return err
		}
		rec, err := in.rest(getBuffer(0), c.s.cfg.MaxRecord)
		if err != nil {
			rec.put()
			return err
		}
		c.dispatch(ctx, rec)
	}
}

// await returns when there is something to read.
func (c *serverConn) await(in *records) error {
	for {
		if !c.s.mayRead(c) {
			return os.ErrDeadlineExceeded
		}
		_, err := in.r.Peek(1)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if c.active.Load() == 0 {
			return errIdle
		}
	}
}

// mayRead sets the time that a connection may be idle, unless the server has
// been told to stop. Its lock orders that with goAway.
func (s *server) mayRead(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop {
		return false
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(s.cfg.Idle)) // reading reports a closed connection
	return true
}

// dispatch hands a call to a worker that waits, or to a new one; when all are
// at work it waits itself, and so does the client.
func (c *serverConn) dispatch(ctx context.Context, rec *buffer) {
	c.active.Add(1)
	select {
	case c.work <- rec:
		return
	default:
	}
	if c.workers < c.s.cfg.Concurrent {
		c.workers++
		c.wg.Add(1)
		go c.runWorker(ctx, rec)
		return
	}
	c.work <- rec
}

// runWorker answers rec and then calls from work until that is closed.
func (c *serverConn) runWorker(ctx context.Context, rec *buffer) {
	defer c.wg.Done()
	w := newWorker(c)
	for ok := true; ok; rec, ok = <-c.work {
		w.serve(ctx, rec)
		c.active.Add(-1)
	}
}

// worker is what answering one call takes, kept for the next.
type worker struct {
	c        *serverConn
	q        transport.Request
	args     xdr.Reader
	reply    xdr.Writer
	packet   packet
	payloads [maxPayloads]mem.Vec
	used     int
	lent     []mem.Seg
}

func newWorker(c *serverConn) *worker {
	w := &worker{c: c}
	w.q.Lease, w.q.AddPayload = w.lease, w.addPayload
	return w
}

func (w *worker) lease(n int) (mem.Seg, error) {
	s, err := w.c.s.leases.get(n)
	if err == nil {
		w.lent = append(w.lent, s)
	}
	return s, err
}

func (w *worker) addPayload(v transport.Payload) int {
	if w.used == maxPayloads {
		panic("tcp: too many payloads in one reply")
	}
	w.payloads[w.used] = v
	w.used++
	return w.used - 1
}

// serve answers one call; it takes rec.
func (w *worker) serve(ctx context.Context, rec *buffer) {
	w.args.Reset(rec.b, nil, nil)
	w.reply.Reset(w.reply.Bytes(), w.payloads[:])
	w.q = transport.Request{Transport: "tcp", Peer: w.c.peer, Args: &w.args, Reply: &w.reply, Lease: w.q.Lease, AddPayload: w.q.AddPayload}
	ok := oncrpc.Serve(ctx, w.c.s.h, &w.q)
	rec.put()
	if ok {
		w.packet.pack(&w.reply, w.payloads[:])
		w.c.out.enqueue(context.Background(), &w.packet)
		w.c.out.wait(&w.packet)
	} else {
		w.c.s.cfg.Log.Warn(fmt.Sprintf("%s: sent what is no call; connection closed", w.c.peer))
		_ = w.c.conn.Close()
	}
	for _, s := range w.lent {
		w.c.s.leases.put(s)
	}
	clear(w.payloads[:w.used])
	w.lent, w.used = w.lent[:0], 0
	if cap(w.reply.Bytes()) > keepHead {
		w.reply = xdr.Writer{}
	}
}
