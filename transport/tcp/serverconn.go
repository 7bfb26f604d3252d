package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport/crew"
)

// serverConn is one client's connection. Its crew (runReceiver) reads calls and answers them: package crew says who does what.
type serverConn struct {
	s    *server
	conn net.Conn
	peer string
	// encrypted: conn is what Upgrade has made.
	encrypted bool
	out       outbox
	sent      atomic.Uint64

	active   atomic.Int32  // calls received and not answered
	running  atomic.Int32  // of them, those taken up
	room     chan struct{} // holds a token if another one may be taken up
	draining atomic.Bool
	crew     *crew.Crew
	wg       sync.WaitGroup // of the crew
	back     backchannel
	held     replies
	// over is closed by who finds that nothing more can be read, after it has set endErr.
	over   chan struct{}
	endErr error
	// For who receives: records, and the socket below them.
	in   *records
	sock *pollingReader
}

func newServerConn(s *server, conn net.Conn) *serverConn {
	c := &serverConn{s: s, peer: conn.RemoteAddr().String(), over: make(chan struct{}), crew: crew.New()}
	c.out.peerTimeout = s.cfg.Idle
	c.back.c, c.room = c, make(chan struct{}, 1)
	c.sock = newPollingReader(conn)
	c.carry(conn)
	return c
}

// carry has conn, the socket or over it, carry the records. server.mu is held, or nobody else knows of c.
func (c *serverConn) carry(conn net.Conn) {
	c.conn = conn
	c.out.init(conn, &c.sent, func(error) { _ = conn.Close() })
	c.in = newRecords(c.sock.or(conn))
}

// upgrade has ServerConfig.Upgrade settle what carries the records.
func (c *serverConn) upgrade(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.s.cfg.Idle, errIdle)
	defer cancel()
	socket := polled(c.conn, c.sock)
	var over net.Conn
	var ahead []byte
	err := within(ctx, socket, func() (err error) {
		over, ahead, err = c.s.cfg.Upgrade(ctx, socket)
		return err
	})
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch {
	case c.s.stop: // the deadlines that drain has set are of the socket, and pass
	case over != socket:
		c.carry(over)
		c.encrypted = true
	case len(ahead) > 0:
		c.in = newRecords(io.MultiReader(bytes.NewReader(ahead), c.sock))
	}
	return nil
}

// drain stops reading, and bounds the time for writing the replies. server.mu is
// held.
func (c *serverConn) drain() {
	c.draining.Store(true)
	c.out.limitDrain(drainTimeout)
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection is as good
}

// runConn starts the crew, and ends the connection when nothing more can be read, or
// the server stops.
func (c *serverConn) runConn(ctx context.Context) {
	defer c.s.drop(c)
	if c.s.cfg.Upgrade != nil {
		if err := c.upgrade(ctx); err != nil {
			if err != io.EOF && ctx.Err() == nil {
				c.s.cfg.Log.Info(fmt.Sprintf("%s: %v", c.peer, err))
			}
			_ = c.conn.Close()
			return
		}
	}
	c.crew.Start = func() {
		c.wg.Add(1)
		go c.runReceiver(ctx)
	}
	c.crew.Start()
	<-c.over
	err := c.endErr
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

// runReceiver is a member of the crew: it reads calls and answers them.
func (c *serverConn) runReceiver(ctx context.Context) {
	defer c.wg.Done()
	for {
		receives := c.sendLeft()
		for receives {
			rec, err := c.next()
			if err != nil {
				c.sendHeld(nil)
				c.endErr = err
				close(c.over)
				return
			}
			if rec != nil {
				receives = c.answer(ctx, rec)
			} else {
				receives = c.sendLeft()
			}
		}
		if !c.crew.StandBy(c.over) {
			return
		}
	}
}

// next reads a record, and returns it if it is a call; a reply it delivers. It returns io.EOF when the client has ended its
// half of the connection.
func (c *serverConn) next() (call *buffer, err error) {
	if err := c.await(); err != nil {
		return nil, err
	}
	if err := c.in.next(); err != nil {
		return nil, err
	}
	rec, err := c.in.rest(getBuffer(0), c.s.cfg.MaxRecord)
	if err != nil {
		rec.put()
		return nil, err
	}
	if c.back.deliver(rec) {
		return nil, nil
	}
	return rec, nil
}

// await returns when there is something to read.
func (c *serverConn) await() error {
	if c.in.r.Buffered() > 0 && !c.draining.Load() {
		return nil
	}
	for {
		if !c.s.armIdle(c) {
			return os.ErrDeadlineExceeded
		}
		c.sock.polls = c.active.Load() == 0
		_, err := c.in.r.Peek(1)
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

// takeUp counts a call that is being carried out, and waits if there are as many as there may be; so does the client
// then. It must not wait for calls that wait for the client, whose replies the same goroutine reads: for each call on the
// client that is outstanding there may be one more.
func (c *serverConn) takeUp() {
	c.active.Add(1)
	for c.running.Load() >= int32(c.s.cfg.Concurrent)+c.back.calls.Load() {
		c.sendHeld(nil)
		<-c.room
	}
	c.running.Add(1)
}

// tellRoom wakes takeUp: another call may be taken up.
func (c *serverConn) tellRoom() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// answer takes up a call, and reports whether its goroutine receives again. It takes rec.
func (c *serverConn) answer(ctx context.Context, rec *buffer) (receives bool) {
	c.takeUp()
	more, _ := c.in.ready()
	w := c.held.worker(c)
	turn := c.crew.Begin()
	if len(rec.b) > maxHere {
		c.crew.Relieve()
	}
	ok := w.carryOut(ctx, rec)
	if !ok {
		c.s.cfg.Log.Warn(fmt.Sprintf("%s: sent what is no call; connection closed", c.peer))
		_ = c.conn.Close()
	}
	switch {
	case !ok:
		w.finish()
		c.held.free(w)
		c.active.Add(-1)
	case more && w.packet.size <= maxHere && c.held.add(w):
		if !c.crew.Here(turn) {
			c.sendHeld(nil)
		}
	default:
		if w.packet.size > maxHere {
			c.crew.Relieve()
		}
		c.sendHeld(w)
	}
	c.running.Add(-1)
	c.tellRoom()
	return c.crew.End(turn)
}

// maxHere is the longest call or reply, in bytes, for which nobody else receives.
const maxHere = 16 << 10

// sendLeft sends replies that wait, as a member has left them that was relieved, or no call has followed theirs; it
// reports whether the caller receives.
func (c *serverConn) sendLeft() (receives bool) {
	if !c.held.any() {
		return true
	}
	turn := c.crew.Begin()
	c.sendHeld(nil)
	return c.crew.End(turn)
}

// sendHeld sends the replies that wait, and that of own, unless it is nil, together.
func (c *serverConn) sendHeld(own *worker) {
	var all [maxReplies + 1]*worker
	ws := c.held.take(all[:0])
	if own != nil {
		ws = append(ws, own)
	}
	if len(ws) == 0 {
		return
	}
	var packets [maxReplies + 1]*packet
	for i, w := range ws {
		packets[i] = &w.packet
	}
	c.out.enqueueAll(packets[:len(ws)])
	for _, w := range ws {
		c.out.wait(&w.packet)
		w.finish()
		c.held.free(w)
	}
	c.active.Add(-int32(len(ws)))
}

// replies is the workers of a connection: those whose replies wait to be sent together, and those that are free.
type replies struct {
	mu   sync.Mutex
	wait []*worker
	idle []*worker
}

// maxReplies bounds the replies that wait.
const maxReplies = 16

// worker takes a free worker.
func (r *replies) worker(c *serverConn) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		w := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return w
	}
	w := &worker{h: c.s.h, out: &c.out, leases: &c.s.leases, peer: c.peer, encrypted: c.encrypted, back: &c.back}
	w.init()
	return w
}

func (r *replies) free(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, w)
}

// add has the reply of w wait, if there is room.
func (r *replies) add(w *worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wait) == maxReplies {
		return false
	}
	r.wait = append(r.wait, w)
	return true
}

// take appends those that wait to ws.
func (r *replies) take(ws []*worker) []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	ws = append(ws, r.wait...)
	clear(r.wait)
	r.wait = r.wait[:0]
	return ws
}

func (r *replies) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.wait) > 0
}
