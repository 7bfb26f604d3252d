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

	"github.com/rdmafs/rdmafs/fs"
)

// The commands' side of the control socket.

// patience is how long a command waits for what a daemon answers at once.
const patience = 10 * time.Second

// socketDirs are where the socket of a mount may be: whoever mounted may have
// had another environment.
func socketDirs(mountPoint string) []string {
	dirs := []string{ownDir()}
	uid := uint32(os.Geteuid())
	if m, ok, err := fs.FindMount(mountPoint); uid == 0 && ok && err == nil {
		uid = m.UID
	}
	for _, d := range []string{fmt.Sprintf("/run/user/%d/rdmafs", uid), temporaryDir("/tmp", uid)} {
		if uid != 0 && !slices.Contains(dirs, d) && privateDir(d, uid) == nil {
			dirs = append(dirs, d)
		}
	}
	if !slices.Contains(dirs, systemDir) {
		dirs = append(dirs, systemDir)
	}
	return dirs
}

// sockets are those in dir of the mounts on a mount point, the upper one, which
// is the newest, first.
func sockets(dir, mountPoint string) []string {
	base := filepath.Join(dir, socketName(mountPoint))
	found, _ := filepath.Glob(strings.TrimSuffix(base, ".sock") + "*.sock")
	made := make(map[string]time.Time, len(found))
	for _, path := range found {
		if st, err := os.Lstat(path); err == nil {
			made[path] = st.ModTime()
		}
	}
	slices.SortFunc(found, func(a, b string) int { return made[b].Compare(made[a]) })
	return found
}

// errNoDaemon: nobody answers for a mount point.
var errNoDaemon = errors.New("no rdmafs daemon of yours answers for this mount point")

// waiting is the answer to "wait": from here on the daemon's end is seen.
const waiting = "waiting"

// waiter is a connection that the daemon of a mount holds until it has ended.
type waiter struct {
	net.Conn
	lines *bufio.Reader
}

// dialWaiter has the daemon of a mount point hold a connection. A daemon that
// ends before it says so counts as none: it may have ended without seeing us,
// and then what went wrong with its data is told to others, or logged.
func dialWaiter(mountPoint string) (*waiter, error) {
	return dialWaiterAt(socketsOf(mountPoint), request(mountPoint, "wait"))
}

func dialWaiterAt(paths []string, request string) (*waiter, error) {
	for _, path := range paths {
		conn, err := dialControl(path, request)
		if err != nil {
			continue
		}
		w := &waiter{conn, bufio.NewReader(conn)}
		line, err := w.lines.ReadString('\n')
		if err == nil && line == waiting+"\n" {
			return w, conn.SetDeadline(time.Time{})
		}
		pid := peer(conn)
		conn.Close()
		if stuck(err) {
			return nil, &stuckError{pid}
		}
	}
	return nil, errNoDaemon
}

// hurry says that the daemon was told to end by force. w may be nil.
func (w *waiter) hurry() {
	if w != nil {
		_ = w.SetReadDeadline(time.Now().Add(forcedGrace + patience))
	}
}

// end returns when the daemon has ended, with what it says went wrong.
func (w *waiter) end() (string, error) {
	line, err := w.lines.ReadString('\n')
	if stuck(err) {
		return "", &stuckError{peer(w.Conn)}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// ask has the daemon of a mount point answer a word.
func ask(mountPoint, word string) ([]byte, error) {
	line := request(mountPoint, word)
	for _, path := range socketsOf(mountPoint) {
		conn, err := dialControl(path, line)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(conn)
		pid := peer(conn)
		conn.Close()
		if stuck(err) {
			return nil, &stuckError{pid}
		}
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
	return nil, errNoDaemon
}

// request is a word for the daemon of the mount that is at a place now.
func request(mountPoint, word string) string {
	if m, ok, err := fs.FindMount(mountPoint); ok && err == nil {
		return word + " " + m.Device
	}
	return word
}

// dialControl reaches the daemon that listens at path and sends it a request.
// It has patience for the answer.
func dialControl(path, request string) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request+"\n"); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// socketsOf are those where a daemon of this mount point may answer.
func socketsOf(mountPoint string) []string {
	var paths []string
	for _, dir := range socketDirs(mountPoint) {
		paths = append(paths, sockets(dir, mountPoint)...)
	}
	return paths
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

// peer is the process that listens where conn was made to; 0 if it cannot be
// told.
func peer(conn net.Conn) (pid int32) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cr, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = cr.Pid
		}
	})
	return pid
}
