package tcp

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs/spin"
)

// pollingReader reads a socket as its Read does, but polls it before it waits: see package spin.
type pollingReader struct {
	raw  syscall.RawConn
	spin spin.Spin
	read func(fd uintptr) bool
	poll func() bool

	// Of one Read.
	fd     uintptr
	p      []byte
	n      int
	err    error
	polled bool
}

// newPollingReader returns a reader of conn, which is conn itself unless that is a socket.
func newPollingReader(conn net.Conn) io.Reader {
	socket, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return conn // closed, which reading reports
	}
	r := &pollingReader{raw: raw}
	r.read, r.poll = r.readOnce, r.try
	return r
}

// Read implements io.Reader, for one goroutine at a time.
func (r *pollingReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.p, r.n, r.err, r.polled = p, 0, nil, false
	err := r.raw.Read(r.read)
	r.p = nil
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
	if r.try() {
		return true
	}
	if r.polled {
		return false
	}
	r.polled = true
	return r.spin.Poll(r.poll)
}

// try is one attempt, and reports whether there was anything.
func (r *pollingReader) try() bool {
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
