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
)

// serverConn is one client's connection.
type serverConn struct {
	s    *server
	conn net.Conn
	peer string
	out  outbox
	sent atomic.Uint64

	active  atomic.Int32  // calls received and not answered
	work    chan *buffer  // calls for workers
	workers int           // number started; runConn's
	extra   atomic.Int32  // workers beside them, for one call each
	room    chan struct{} // holds a token if there may be room for another one
	wg      sync.WaitGroup
	back    backchannel
}

func newServerConn(s *server, conn net.Conn) *serverConn {
	c := &serverConn{s: s, conn: conn, peer: conn.RemoteAddr().String(), work: make(chan *buffer)}
	c.out.init(conn, &c.sent, func(error) { _ = conn.Close() })
	c.out.peerTimeout = s.cfg.Idle
	c.back.c, c.room = c, make(chan struct{}, 1)
	return c
}

// drain stops reading, and bounds the time for writing the replies. server.mu is
// held.
func (c *serverConn) drain() {
	c.out.limitDrain(drainTimeout)
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection is as good
}

// runConn reads calls and hands them to workers until the connection ends or
// the server stops.
func (c *serverConn) runConn(ctx context.Context) {
	defer c.s.drop(c)
	err := c.read(ctx)
	close(c.work)
	c.back.end(err)
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
	in := newRecords(newPollingReader(c.conn))
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
		if !c.back.deliver(rec) {
			c.dispatch(ctx, rec)
		}
	}
}

// await returns when there is something to read.
func (c *serverConn) await(in *records) error {
	for {
		if !c.s.armIdle(c) {
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

// armIdle sets the time that a connection may be idle, unless the server has
// been told to stop. Its lock orders that with drain.
func (s *server) armIdle(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop {
		return false
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(s.cfg.Idle)) // reading reports a closed connection
	return true
}

// dispatch hands a call to an idle worker, or to a new one; if all are busy it
// blocks, and so does the client. It must not wait for workers that wait for the
// client, whose replies the same goroutine reads: for each call on the client that
// is outstanding there may be one more worker.
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
		go c.runWorker(ctx, rec, true)
		return
	}
	for c.extra.Load() >= c.back.calls.Load() {
		select {
		case c.work <- rec:
			return
		case <-c.room:
		}
	}
	c.extra.Add(1)
	c.wg.Add(1)
	go c.runWorker(ctx, rec, false)
}

// roomForExtra wakes dispatch: there may be room for another worker.
func (c *serverConn) roomForExtra() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// runWorker answers rec and, with stay, calls from work until that is closed.
func (c *serverConn) runWorker(ctx context.Context, rec *buffer, stay bool) {
	defer c.wg.Done()
	w := &worker{h: c.s.h, out: &c.out, leases: &c.s.leases, peer: c.peer, back: &c.back}
	w.init()
	for ok := true; ok; rec, ok = <-c.work {
		if !w.serve(ctx, rec) {
			c.s.cfg.Log.Warn(fmt.Sprintf("%s: sent what is no call; connection closed", c.peer))
			_ = c.conn.Close()
		}
		c.active.Add(-1)
		if !stay {
			c.extra.Add(-1)
			c.roomForExtra()
			return
		}
	}
}
