package krb5

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// KCM is a server on this host that keeps the tickets of all users, sssd_kcm or Heimdal's
// kcm. It is asked by a Unix socket, and knows users by the credentials of who connects.
// All numbers are big-endian. A request is its length, a version, an operation, and
// arguments: names end with a zero byte. A reply is its length, an error of the
// transport, and, counted by the length, a status and what was asked for, in the format of
// files of version 4.
const (
	defaultKCMSocket = "/var/run/.heim_org.h5l.kcm-socket"
	kcmVersion       = 0x0200

	kcmGetPrincipal    = 8
	kcmGetCredUUIDs    = 9
	kcmGetCredByUUID   = 10
	kcmGetDefaultCache = 20

	kcmTimeout = 3 * time.Second
	uuidLen    = 16
	maxKCMName = 1 << 10
)

// kcmStatus is a status that is not zero, a com_err code of the server's library.
type kcmStatus int32

// kcmNoCache is KRB5_FCC_NOFILE.
const kcmNoCache kcmStatus = -1765328189

func (s kcmStatus) Error() string { return fmt.Sprintf("KCM answers with error %d", int32(s)) }

// readKCM reads a cache of a user from KCM: that of a name, or, without, his default one.
func readKCM(ctx context.Context, socket, name string, uid, self uint32) (*cached, error) {
	if len(name) > maxKCMName || strings.Contains(name, "\x00") {
		return nil, errors.New("this is no name of a cache")
	}
	conn, err := dialKCM(socket, uid, self)
	if err != nil {
		return nil, fmt.Errorf("no KCM server can be asked at %s (kcm_socket of krb5.conf): %v", socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, kcmTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c, err := (&kcm{conn, maxCache}).cache(name)
	if errors.Is(err, kcmNoCache) {
		err = errNoCache
	}
	return c, err
}

// dialKCM connects to KCM as a user.
func dialKCM(socket string, uid, self uint32) (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), socket)
	defer f.Close()
	connect := func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: socket}) } // never waits
	if uid == self {
		err = connect()
	} else {
		err = asUser(uid, connect)
	}
	if err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// kcm is a connection to KCM. left bounds what it may send from now on.
type kcm struct {
	conn io.ReadWriter
	left uint32
}

// cache asks for all that is in a cache.
func (k *kcm) cache(name string) (*cached, error) {
	if name == "" {
		b, err := k.call(kcmGetDefaultCache)
		if err != nil {
			return nil, err
		}
		end := bytes.IndexByte(b, 0)
		if end < 0 || end > maxKCMName {
			return nil, errKCM
		}
		name = string(b[:end])
	}
	zero := append([]byte(name), 0)
	b, err := k.call(kcmGetPrincipal, zero)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 { // Heimdal's server, of a cache that is not there
		return nil, errNoCache
	}
	c := &cached{}
	if c.client, err = parsePrincipal(b); err != nil {
		return nil, err
	}
	ids, err := k.call(kcmGetCredUUIDs, zero)
	if err != nil {
		return nil, err
	}
	if len(ids)%uuidLen != 0 || len(ids) > maxTickets*uuidLen {
		return nil, errKCM
	}
	for ; len(ids) > 0; ids = ids[uuidLen:] {
		b, err := k.call(kcmGetCredByUUID, zero, ids[:uuidLen])
		if status := kcmStatus(0); errors.As(err, &status) {
			continue // it was removed
		}
		if err == nil {
			err = c.add(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// errKCM: a reply is not what the protocol allows.
var errKCM = errors.New("the reply of KCM is malformed")

// call makes one request.
func (k *kcm) call(op uint16, args ...[]byte) ([]byte, error) {
	msg := binary.BigEndian.AppendUint16(make([]byte, 4), kcmVersion)
	msg = binary.BigEndian.AppendUint16(msg, op)
	for _, a := range args {
		msg = append(msg, a...)
	}
	binary.BigEndian.PutUint32(msg, uint32(len(msg)-4))
	if _, err := k.conn.Write(msg); err != nil {
		return nil, fmt.Errorf("asking KCM: %w", err)
	}
	var head [8]byte
	if _, err := io.ReadFull(k.conn, head[:]); err != nil {
		return nil, fmt.Errorf("KCM does not answer: %w", err)
	}
	if code := kcmStatus(binary.BigEndian.Uint32(head[4:])); code != 0 {
		return nil, code
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < 4 || n > k.left {
		return nil, fmt.Errorf("%w: %d bytes, and there may be %d", errKCM, n, k.left)
	}
	k.left -= n
	b := make([]byte, n)
	if _, err := io.ReadFull(k.conn, b); err != nil {
		return nil, fmt.Errorf("KCM does not answer: %w", err)
	}
	if status := kcmStatus(binary.BigEndian.Uint32(b)); status != 0 {
		return nil, status
	}
	return b[4:], nil
}
