package tcp

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/stream"
)

// link is one connection to a server.
type link struct {
	d    *Dialer
	conn net.Conn
	out  outbox

	done   chan struct{} // closed by fail
	reader chan struct{} // closed when runReader has returned

	mu      sync.Mutex
	err     error // why done is closed
	pending map[uint32]*exchange
}

func newLink(d *Dialer, conn net.Conn) *link {
	l := &link{d: d, conn: conn, done: make(chan struct{}), reader: make(chan struct{}), pending: map[uint32]*exchange{}}
	l.out.init(conn, &d.stats.sent, func(err error) { l.fail(fmt.Errorf("write: %w", err)) })
	go l.runReader()
	return l
}

// Done is closed when the connection is lost or closed.
func (l *link) Done() <-chan struct{} { return l.done }

// Err says why Done is closed.
func (l *link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Stalled implements transport.Stalling.
func (l *link) Stalled() error {
	c, ok := l.conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil // closed
	}
	return stream.Stalled(raw)
}

// Close ends the connection and waits until nothing of it is left running.
func (l *link) Close() error {
	l.fail(transport.ErrClosed)
	<-l.reader
	l.out.close()
	return nil
}

// fail ends the connection for the first reason given.
func (l *link) fail(err error) {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = err
		close(l.done)
	}
	l.mu.Unlock()
	if first {
		_ = l.conn.Close()
	}
}
