package iwarp

import (
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A peer that has vanished is noticed after about this long, idle or not.
// A living one that reads nothing for as long counts as vanished, too.
const (
	deadPeer      = 60 * time.Second
	keepIdle      = 30 * time.Second
	keepInterval  = 10 * time.Second
	keepCount     = 3
	userTimeoutMS = int(deadPeer / time.Millisecond)
)

// past is a deadline that wakes a goroutine blocked on the socket.
var past = time.Unix(1, 0)

// tune sets the options of a fresh socket and returns its raw side.
func tune(s *net.TCPConn) (syscall.RawConn, error) {
	if err := s.SetNoDelay(true); err != nil {
		return nil, err
	}
	err := s.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepIdle, Interval: keepInterval, Count: keepCount})
	if err != nil {
		return nil, err
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeoutMS)
	})
	if err == nil {
		err = opt
	}
	return raw, err
}

// segmentSize is the connection's TCP segment size without options.
func segmentSize(raw syscall.RawConn) (int, error) {
	var mss int
	var opt error
	if err := raw.Control(func(fd uintptr) {
		mss, opt = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	}); err != nil {
		return 0, err
	}
	if opt == nil && mss < 128 {
		opt = fmt.Errorf("TCP segment size %d", mss)
	}
	return mss, opt
}

// appendVector appends b, which must not be empty, to a list for readv or writev.
func appendVector(v []unix.Iovec, b []byte) []unix.Iovec {
	v = append(v, unix.Iovec{Base: unsafe.SliceData(b)})
	v[len(v)-1].SetLen(len(b))
	return v
}

// readv and writev make one non-blocking system call. Go's sockets are
// non-blocking, and the runtime ignores the SIGPIPE of a socket.
func readv(fd uintptr, v []unix.Iovec) (int, syscall.Errno) {
	return vectorCall(unix.SYS_READV, fd, v)
}

func writev(fd uintptr, v []unix.Iovec) (int, syscall.Errno) {
	return vectorCall(unix.SYS_WRITEV, fd, v)
}

func vectorCall(trap, fd uintptr, v []unix.Iovec) (int, syscall.Errno) {
	for {
		n, _, errno := unix.Syscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// offset is n bytes into v.
func offset(v *unix.Iovec, n int) *byte {
	return (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
}
