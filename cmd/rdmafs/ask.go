package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// The commands' side of the control socket. What listens there may be another
// user's program: its answers are bounded, in length and in time, and whoever
// prints them makes them plain.

// patience is how long a command waits for what a daemon answers at once.
const patience = 10 * time.Second

// maxAnswer bounds what a daemon may answer, in bytes.
const maxAnswer = 1 << 20

// address is a control socket, and the user that must be listening there.
type address struct {
	path string
	uid  uint32
}

// sockets are those in dir of the mounts on a mount point, the upper one, which
// is the newest, first.
func sockets(at place, mountPoint string) (found []address) {
	stem := strings.TrimSuffix(socketName(mountPoint), ".sock")
	names, _ := os.ReadDir(at.dir)
	made := make(map[string]time.Time)
	for _, e := range names {
		if !strings.HasPrefix(e.Name(), stem) || e.Type() != os.ModeSocket {
			continue
		}
		path := filepath.Join(at.dir, e.Name())
		if st, err := os.Lstat(path); err == nil {
			made[path] = st.ModTime()
			found = append(found, address{path, at.uid})
		}
	}
	slices.SortFunc(found, func(a, b address) int { return made[b.path].Compare(made[a.path]) })
	return found
}

// errNoDaemon: nobody answers for a mount point.
var errNoDaemon = errors.New("no rdmafs daemon of yours answers for this mount point")

// What a daemon says on a connection that it holds.
const (
	waiting = "waiting" // from here on its end is seen
	done    = "done"    // what was asked for is done
)

// held is a connection that the daemon of a mount holds until it has ended, or
// has done what takes long.
type held struct {
	net.Conn
	lines *bufio.Reader
	at    address
}

// hold has the daemon of a mount point hold a connection: see control. A daemon
// that ends before it says so counts as none: it may have ended without seeing
// us, and then what went wrong with its data is told to others, or logged.
func hold(mountPoint, request string) (*held, error) {
	return holdAt(addressesOf(mountPoint), request)
}

func holdAt(at []address, request string) (*held, error) {
	for _, a := range at {
		conn, pid, err := dialControl(a, request)
		if err != nil {
			continue
		}
		w := &held{conn, bufio.NewReader(io.LimitReader(conn, maxAnswer)), a}
		line, err := w.lines.ReadString('\n')
		if err == nil && line == waiting+"\n" {
			return w, conn.SetDeadline(time.Time{})
		}
		conn.Close()
		if stuck(err) {
			return nil, &stuckError{pid}
		}
	}
	return nil, errNoDaemon
}

// hurry says that the daemon was told to end by force. w may be nil.
func (w *held) hurry() {
	if w != nil {
		_ = w.SetReadDeadline(time.Now().Add(forcedGrace + patience))
	}
}

// end returns when the daemon has ended, or done what was asked, with what it
// says of it.
func (w *held) end() (string, error) {
	line, err := w.lines.ReadString('\n')
	if stuck(err) {
		pid, _ := peer(w.Conn)
		return "", &stuckError{pid}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// ask has the daemon of a mount point answer a word.
func ask(mountPoint, word string) ([]byte, error) {
	return askAt(addressesOf(mountPoint), request(mountPoint, word))
}

func askAt(at []address, request string) ([]byte, error) {
	for _, a := range at {
		conn, pid, err := dialControl(a, request)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(conn, maxAnswer+1))
		conn.Close()
		switch {
		case stuck(err):
			return nil, &stuckError{pid}
		case len(b) > maxAnswer:
			return nil, fmt.Errorf("process %d, user %d, answers with more than %d bytes: it is no rdmafs daemon", pid, a.uid, maxAnswer)
		case err != nil || len(b) > 0:
			return b, err
		}
	}
	return nil, errNoDaemon
}

// request is a word for the daemon of the mount that is at a place now.
func request(mountPoint, word string) string {
	if m, ok, err := mounttable.Find(mountPoint); ok && err == nil {
		return word + " " + m.Device
	}
	return word
}

// dialControl reaches the daemon that listens at a, process pid, and sends it a
// request. It has patience for the answer.
func dialControl(a address, request string) (_ net.Conn, pid int32, _ error) {
	conn, err := net.Dial("unix", a.path)
	if err != nil {
		return nil, 0, err
	}
	pid, uid := peer(conn)
	if uid != a.uid {
		conn.Close()
		return nil, 0, fmt.Errorf("%s: user %d listens there, not %d", a.path, uid, a.uid)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request+"\n"); err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, pid, nil
}

// addressesOf are where a daemon of this mount point may answer.
func addressesOf(mountPoint string) (all []address) {
	for _, at := range places(mountPoint) {
		all = append(all, sockets(at, mountPoint)...)
	}
	return all
}

// stuckError is a daemon that is there and does not answer.
type stuckError struct{ pid int32 }

func (e *stuckError) Error() string {
	return fmt.Sprintf("the mount's daemon, process %d, does not answer: it is stopped or stuck", e.pid)
}

// unmounted is the error when its mount was detached all the same.
func (e *stuckError) unmounted(dir string) error {
	return fmt.Errorf("%s: unmounted, but %w (end it with: kill -9 %d)", dir, e, e.pid)
}

func stuck(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// nobodyKnown is the user of a peer that cannot be told: the one that no user is
// (chown(2)).
const nobodyKnown = ^uint32(0)

// peer is the process that listens where conn was made to, and its user. The
// kernel has them from listen(2).
func peer(conn net.Conn) (pid int32, uid uint32) {
	uid = nobodyKnown
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, uid
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, uid
	}
	_ = raw.Control(func(fd uintptr) {
		if cr, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid, uid = cr.Pid, cr.Uid
		}
	})
	return pid, uid
}
