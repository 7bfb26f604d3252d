package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs/stream"
)

// link is one connection to a server.
type link struct {
	requester
	d      *Dialer
	box    outbox
	reader chan struct{} // closed when runReader has returned
	// in is read by who has the turn. interrupted: runReader has moved the read deadline since it read last.
	in          *records
	interrupted bool
	sock        *pollingReader // below in
	// back serves the server's calls; nil where no handler is configured.
	back *callbacks
}

// newLink is over conn, which is the socket that sock reads, or over it.
func newLink(d *Dialer, conn net.Conn, sock *pollingReader, peer netip.AddrPort) *link {
	l := &link{d: d, reader: make(chan struct{})}
	l.requester = requester{conn: conn, out: &l.box, stats: &d.stats, peer: peer.String(), maxRecord: d.cfg.MaxRecord}
	l.init()
	l.turn, l.drive = turn.New(&l.mu, l.interrupt), l.receive
	l.sock = sock
	l.in = newRecords(&countingReader{r: sock.or(conn), n: &d.stats.received})
	l.box.init(conn, &d.stats.sent, func(err error) { l.fail(fmt.Errorf("write: %w", err)) })
	if d.cfg.Callbacks != nil {
		l.back = newCallbacks(l)
	}
	go l.runReader()
	return l
}

// Stalled implements transport.Stalling.
func (l *link) Stalled() error {
	socket := l.conn
	if over, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = over.NetConn()
	}
	c, ok := socket.(syscall.Conn)
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
	var err error
	if l.back != nil {
		err = l.back.close()
	}
	l.box.close()
	return err
}

// fail ends the connection for the first reason given.
func (l *link) fail(err error) {
	if l.end(err) {
		_ = l.conn.Close()
	}
}
