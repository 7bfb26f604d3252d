package rpctls

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxPlain is what a record carries at most (RFC 8446 section 5.1).
	maxPlain = 16 << 10
	// batch is how much is encrypted before it is written: as much as the kernel passes down in one piece.
	batch = 4 * maxPlain
	// maxHeld bounds what waits to be written: a batch with its last record, and answers to new keys of a peer, who can
	// send any number of them.
	maxHeld = 4 * batch
)

// Conn is an encrypted connection. One goroutine may read and one may write at a time; deadlines and Close are for all.
type Conn struct {
	tls    *tls.Conn
	wire   *wire
	socket net.Conn
	small  []byte // gathers what is less than a record
}

// newConn is a connection over socket, before its handshake.
func newConn(socket net.Conn, over func(*wire) *tls.Conn) (*Conn, *wire) {
	w := &wire{Conn: socket}
	return &Conn{tls: over(w), wire: w, socket: socket}, w
}

// NetConn is the connection below.
func (c *Conn) NetConn() net.Conn { return c.socket }

// Read reads what the peer has sent. It can be called again after a deadline has passed.
func (c *Conn) Read(p []byte) (int, error) { return c.tls.Read(p) }

// Write is WriteBuffers of p.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteBuffers([][]byte{p}) }

// WriteBuffers implements tcp.BuffersWriter. It borrows bufs until it returns: what it has taken, it has encrypted.
func (c *Conn) WriteBuffers(bufs [][]byte) (taken int, err error) {
	at := 0 // in bufs[0]
	for {
		if err := c.wire.flush(); err != nil {
			return taken, err
		}
		for held := 0; held < batch; {
			var record []byte
			if record, bufs, at = c.record(bufs, at); len(record) == 0 {
				break
			}
			if _, err := c.tls.Write(record); err != nil {
				return taken, err
			}
			taken, held = taken+len(record), held+len(record)
		}
		if !c.wire.unsent() {
			return taken, nil
		}
	}
}

// record is what goes into the next record of what is left, bufs from byte at of the first on; and what is left then. It is
// valid until the next call.
func (c *Conn) record(bufs [][]byte, at int) (record []byte, left [][]byte, next int) {
	for len(bufs) > 0 && at == len(bufs[0]) {
		bufs, at = bufs[1:], 0
	}
	if len(bufs) == 0 {
		return nil, nil, 0
	}
	if b := bufs[0][at:]; len(b) >= maxPlain || len(bufs) == 1 {
		n := min(len(b), maxPlain)
		return b[:n], bufs, at + n
	}
	c.small = slices.Grow(c.small[:0], maxPlain)
	for len(bufs) > 0 && len(c.small) < maxPlain {
		n := min(len(bufs[0])-at, maxPlain-len(c.small))
		c.small = append(c.small, bufs[0][at:at+n]...)
		if at += n; at == len(bufs[0]) {
			bufs, at = bufs[1:], 0
		}
	}
	return c.small, bufs, at
}

// Unsent implements tcp.BuffersWriter.
func (c *Conn) Unsent() bool { return c.wire.unsent() }

// Close tells the peer, if that needs no waiting, and closes the connection below.
func (c *Conn) Close() error { return c.tls.Close() }

func (c *Conn) LocalAddr() net.Addr                { return c.socket.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr               { return c.socket.RemoteAddr() }
func (c *Conn) SetDeadline(t time.Time) error      { return c.socket.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.socket.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.socket.SetWriteDeadline(t) }

// wire is what crypto/tls has for a socket. After the handshake it keeps what is written until flush, so that no record is
// ever cut: a tls.Conn of which a write has failed is of no use any more.
type wire struct {
	net.Conn
	// holds is set when the handshake is over.
	holds bool

	mu sync.Mutex
	// out are records to be written, sending what is being written, or was interrupted; the writer alone changes what is in it.
	out, sending []byte
	sent         int // of sending
	writing      bool
	closed       bool
}

// errHeld ends the connection with the write that comes next.
var errHeld = errors.New("the peer changes its keys all the time")

// Write implements net.Conn for crypto/tls, the goroutine that reads included: it answers alerts and new keys.
func (w *wire) Write(b []byte) (int, error) {
	if !w.holds {
		return w.Conn.Write(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	if len(w.out)+len(b) > maxHeld {
		return 0, errHeld
	}
	w.out = append(w.out, b...)
	return len(b), nil
}

func (w *wire) unsent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent < len(w.sending) || len(w.out) > 0
}

// flush writes what is held. After an error it goes on where it was.
func (w *wire) flush() error {
	for {
		w.mu.Lock()
		if w.sent == len(w.sending) {
			w.sending, w.out, w.sent = w.out, w.sending[:0], 0
		}
		rest := w.sending[w.sent:]
		w.writing = len(rest) > 0
		w.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
		n, err := w.Conn.Write(rest)
		w.mu.Lock()
		w.sent += n
		w.writing = false
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// SetWriteDeadline does nothing: crypto/tls sets one for its last word, which would be in the way of the connection's own.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// Close sends what crypto/tls said last if nothing is before it and the socket has room, and closes the socket.
func (w *wire) Close() error {
	w.mu.Lock()
	if !w.closed && !w.writing && w.sent == len(w.sending) && len(w.out) > 0 {
		writeOnce(w.Conn, w.out)
	}
	w.closed = true
	w.mu.Unlock()
	return w.Conn.Close()
}

// writeOnce writes what a socket takes without waiting.
func writeOnce(conn net.Conn, b []byte) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = unix.Write(int(fd), b)
		return true
	})
}
