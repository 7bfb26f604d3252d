package tcp

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs/spin"
)

// pollingReader reads a socket as its Read does, but polls it before it waits if it was told that this may pay: see package spin.
type pollingReader struct {
	conn io.Reader
	raw  syscall.RawConn // nil unless conn is a socket
	spin spin.Spin
	read func(fd uintptr) bool
	try  func() bool
	// poll is that of spin, but in tests.
	poll func(try func() bool) bool

	// polls: the next Read may poll, once. The user sets it.
	polls bool

	// Of one Read.
	fd  uintptr
	p   []byte
	n   int
	err error
}

// newPollingReader returns a reader of conn that never polls unless conn is a socket.
func newPollingReader(conn net.Conn) *pollingReader {
	r := &pollingReader{conn: conn}
	if socket, ok := conn.(*net.TCPConn); ok {
		if raw, err := socket.SyscallConn(); err == nil { // otherwise it is closed, which reading reports
			r.raw = raw
		}
	}
	r.read, r.try, r.poll = r.readOnce, r.tryOnce, r.spin.Poll
	return r
}

// or is r if conn is the socket that r reads, and else conn, over that socket.
func (r *pollingReader) or(conn net.Conn) io.Reader {
	if r.conn == io.Reader(conn) {
		return r
	}
	return conn
}

// polledConn is a socket that is read by a pollingReader: what Upgrade gets, so that what it returns polls too.
type polledConn struct {
	*net.TCPConn
	in *pollingReader
}

// Read implements io.Reader.
func (c *polledConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// polled is conn, read by in if it is a socket.
func polled(conn net.Conn, in *pollingReader) net.Conn {
	if socket, ok := conn.(*net.TCPConn); ok {
		return &polledConn{socket, in}
	}
	return conn
}

// Read implements io.Reader, for one goroutine at a time.
func (r *pollingReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.raw == nil {
		return r.conn.Read(p)
	}
	r.p, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.read)
	r.p, r.polls = nil, false
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, os.NewSyscallError("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// readOnce reads what is there, or has the runtime wait for the socket.
func (r *pollingReader) readOnce(fd uintptr) bool {
	r.fd = fd
	if r.tryOnce() {
		return true
	}
	if !r.polls {
		return false
	}
	r.polls = false
	return r.poll(r.try)
}

// tryOnce is one attempt, and reports whether there was anything.
func (r *pollingReader) tryOnce() bool {
	for {
		r.n, r.err = unix.Read(int(r.fd), r.p)
		if r.err != unix.EINTR {
			break
		}
	}
	if r.err == unix.EAGAIN {
		r.n, r.err = 0, nil
		return false
	}
	if r.err != nil {
		r.n = 0
	}
	return true
}
