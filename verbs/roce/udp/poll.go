package udp

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for a socket. Go's own would watch it for both directions; but of a UDP socket
// the kernel reports room to send each time that it is done with a datagram, on one host as soon as
// the other side has received it, and each report wakes a thread of the process for nothing. So Go's poller
// watches an epoll instance that watches the socket for input alone. Room to send
// is waited for only where there was none.
type poller struct {
	// file is the socket, ready the epoll instance, ended an event that Close sets.
	file, ready, ended *os.File
	// Control of socket may be called at any time, Read of input with the socket held.
	socket, input syscall.RawConn

	closed atomic.Bool
	// full is held by the one that waits for room to send.
	full sync.Mutex
}

// init takes fd, a blocking socket.
func (p *poller) init(fd int) (err error) {
	// Go does not watch what is blocking.
	p.file = os.NewFile(uintptr(fd), "UDP socket")
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(ep, true); err != nil {
		unix.Close(ep)
		return os.NewSyscallError("fcntl", err)
	}
	p.ready = os.NewFile(uintptr(ep), "epoll instance of a UDP socket")
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	p.ended = os.NewFile(uintptr(ev), "end of a UDP socket")
	if p.socket, err = p.file.SyscallConn(); err != nil {
		return err
	}
	p.input, err = p.ready.SyscallConn()
	return err
}

// release closes all.
func (p *poller) release() {
	for _, f := range []*os.File{p.ready, p.file, p.ended} {
		if f != nil {
			f.Close()
		}
	}
}

// close ends what waits.
func (p *poller) close() error {
	if p.closed.Swap(true) {
		return net.ErrClosed
	}
	_, err := p.ended.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	p.full.Lock()
	p.release()
	p.full.Unlock()
	return err
}

// errorOf is the error of a call of socket or input.
func (p *poller) errorOf(err error) error {
	if err != nil && p.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// awaitRoom returns when the socket takes a datagram, or is closed. The others that wait for that, wait for
// the lock, each of which would take a thread otherwise.
func (p *poller) awaitRoom(fd uintptr) error {
	p.full.Lock()
	defer p.full.Unlock()
	if p.closed.Load() {
		return net.ErrClosed
	}
	for {
		_, err := unix.Poll([]unix.PollFd{
			{Fd: int32(fd), Events: unix.POLLOUT},
			{Fd: int32(p.ended.Fd()), Events: unix.POLLIN},
		}, -1)
		if err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
	}
}

// SetReadDeadline ends a Recv that waits, now or later, with
// os.ErrDeadlineExceeded at t; a zero t is never.
func (p *poller) SetReadDeadline(t time.Time) error { return p.errorOf(p.ready.SetReadDeadline(t)) }
