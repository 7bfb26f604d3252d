package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/syslog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is where journald listens.
const Socket = "/run/systemd/journal/socket"

// sendTimeout bounds the wait for a journald whose queue is full.
const sendTimeout = time.Second

// Field is a part of a record. Its name has capital letters, digits and underscores, begins
// with a letter, and is 64 bytes long at most.
type Field struct{ Name, Value string }

// Journal sends records to one journald.
type Journal struct {
	to unix.SockaddrUnix
	// of is on each record, the identifier among them.
	of []Field

	mu   sync.Mutex
	fd   int // -1 once closed
	lost int // records since one was taken
}

// Open is the way to the journald that listens on a socket; it fails if none does. Each
// record has the fields of of, too.
func Open(socket string, of ...Field) (*Journal, error) {
	j := &Journal{to: unix.SockaddrUnix{Name: socket}, of: of}
	for _, f := range of {
		if !validName(f.Name) {
			return nil, fmt.Errorf("journal: no field can be called %q", f.Name)
		}
	}
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	// Records are sent without a connection, which a journald that is started anew would not know.
	probe, err := newSocket()
	if err == nil {
		err = os.NewSyscallError("connect", unix.Connect(probe, &j.to))
		_ = unix.Close(probe)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("journald at %s: %w", socket, err)
	}
	j.fd = fd
	return j, nil
}

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	patience := unix.NsecToTimeval(int64(sendTimeout))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// Close ends the use of j.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	fd := j.fd
	j.fd = -1
	if fd < 0 {
		return os.ErrClosed
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

// Send sends a record. priority is a severity of syslog(3).
func (j *Journal) Send(priority int, message string, more ...Field) error {
	for _, f := range more {
		if !validName(f.Name) {
			return fmt.Errorf("journal: no field can be called %q", f.Name)
		}
	}
	b := j.record(priority, message, more)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fd < 0 {
		return os.ErrClosed
	}
	flags := 0
	if j.lost > 0 {
		flags = unix.MSG_DONTWAIT
	}
	if err := j.send(b, flags); err != nil {
		j.lost++
		return fmt.Errorf("journald at %s: %w", j.to.Name, err)
	}
	if n := j.lost; n > 0 {
		notice := j.record(int(syslog.LOG_WARNING), fmt.Sprintf("%d messages before this were lost: journald did not take them", n), nil)
		if j.send(notice, unix.MSG_DONTWAIT) == nil {
			j.lost = 0
		}
	}
	return nil
}

// record is what travels.
func (j *Journal) record(priority int, message string, more []Field) []byte {
	b := appendField(nil, "MESSAGE", message)
	b = appendField(b, "PRIORITY", strconv.Itoa(priority))
	for _, f := range j.of {
		b = appendField(b, f.Name, f.Value)
	}
	for _, f := range more {
		b = appendField(b, f.Name, f.Value)
	}
	return b
}

// appendField appends a field: a line, or with the length before it if there are line ends in it.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	if strings.Contains(value, "\n") {
		b = append(b, '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	} else {
		b = append(b, '=')
	}
	b = append(b, value...)
	return append(b, '\n')
}

func validName(name string) bool {
	const most = 64
	if name == "" || len(name) > most || name[0] < 'A' || name[0] > 'Z' {
		return false
	}
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// send sends a record as a datagram, or in a file if it is too long for one. mu is held.
func (j *Journal) send(b []byte, flags int) error {
	err := j.sendmsg(b, nil, flags)
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	fd, err := sealed(b)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return j.sendmsg(nil, unix.UnixRights(fd), flags)
}

func (j *Journal) sendmsg(b, rights []byte, flags int) error {
	for {
		err := unix.Sendmsg(j.fd, b, rights, &j.to, flags|unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// sealed is a file in memory that nobody can change any more: journald takes no other. The
// caller closes it.
func sealed(b []byte) (int, error) {
	fd, err := unix.MemfdCreate("rdmafs-log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for err == nil && len(b) > 0 {
		var n int
		if n, err = unix.Write(fd, b); err == unix.EINTR {
			err = nil
			continue
		}
		b = b[max(0, n):]
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("write", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	return fd, nil
}
