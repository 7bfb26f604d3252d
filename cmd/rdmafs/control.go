package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/fs"
)

// control is the Unix socket on which the daemon of a mount answers. A request
// is one word and a newline:
//
//	stats   a JSON object, and the end of the connection
//	wait    "waiting"; the connection ends when the mount has ended and its
//	        data is safe, with a line before it if that failed
//	abort   requests that wait for the server fail from now on; "ok"
type control struct {
	ln   *net.UnixListener
	path string

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	waiters []net.Conn
	closed  bool
	serving sync.WaitGroup
}

// systemDir is where root's sockets are.
const systemDir = "/run/rdmafs"

// maxSocketPath is what fits the address of a Unix socket, with its final zero.
const maxSocketPath = 107

// ownDir is where the sockets of this user's daemons are.
func ownDir() string {
	uid := uint32(os.Geteuid())
	if uid == 0 {
		return systemDir
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		own := filepath.Join(d, "rdmafs")
		// Room for the name, and for what tells apart stacked mounts.
		if len(own)+len("/0123456789abcdef-4194304.sock") <= maxSocketPath {
			return own
		}
	}
	return temporaryDir(os.TempDir(), uid)
}

func temporaryDir(tmp string, uid uint32) string {
	return filepath.Join(tmp, fmt.Sprintf("rdmafs-%d", uid))
}

// socketDirs are where the socket of a mount may be. Root also looks where the
// user has it who mounted.
func socketDirs(mountPoint string) []string {
	if os.Geteuid() != 0 {
		return []string{ownDir(), systemDir}
	}
	dirs := []string{systemDir}
	m, ok, err := fs.FindMount(mountPoint)
	if err != nil || !ok || m.UID == 0 {
		return dirs
	}
	for _, d := range []string{fmt.Sprintf("/run/user/%d/rdmafs", m.UID), temporaryDir("/tmp", m.UID)} {
		if privateDir(d, m.UID) == nil {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// privateDir checks that only a user can have put sockets into dir.
func privateDir(dir string, uid uint32) error {
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || st.Uid != uid || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that only its user can write to (remove it, or set XDG_RUNTIME_DIR)", dir)
	}
	return nil
}

func socketName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x.sock", sum[:8])
}

// newControl makes the socket for a mount point.
func newControl(mountPoint string) (*control, error) {
	dir := ownDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of control sockets: %w", err)
	}
	if err := privateDir(dir, uint32(os.Geteuid())); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketName(mountPoint))
	if c, err := net.Dial("unix", path); err == nil {
		// Another daemon has a mount below: it keeps its socket until it ends.
		c.Close()
		path = strings.TrimSuffix(path, ".sock") + fmt.Sprintf("-%d.sock", os.Getpid())
	} else {
		_ = os.Remove(path) // left by a daemon that was killed
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &control{ln: ln, path: path, conns: make(map[net.Conn]struct{})}, nil
}

// runServe answers until close.
func (c *control) runServe(st *status, abort func()) {
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			conn.Close()
			return
		}
		c.conns[conn] = struct{}{}
		c.serving.Add(1)
		c.mu.Unlock()
		go c.runAnswer(conn, st, abort)
	}
}

func (c *control) runAnswer(conn net.Conn, st *status, abort func()) {
	defer c.serving.Done()
	word, err := bufio.NewReader(io.LimitReader(conn, 64)).ReadString('\n')
	keep := false
	if err == nil {
		switch strings.TrimSpace(word) {
		case "stats":
			_ = printJSON(conn, st.snapshot())
		case "abort":
			abort()
			_, _ = io.WriteString(conn, "ok\n")
		case "wait":
			keep = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if keep && !c.closed {
		if _, err := io.WriteString(conn, waiting+"\n"); err == nil {
			c.waiters = append(c.waiters, conn)
			return
		}
	}
	delete(c.conns, conn)
	conn.Close()
}

// finish tells those who wait how the mount ended, and closes the socket.
func (c *control) finish(end error) {
	c.ln.Close()
	c.mu.Lock()
	c.closed = true
	for _, w := range c.waiters {
		if end != nil {
			_ = w.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = fmt.Fprintln(w, oneLine(end))
		}
	}
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.serving.Wait()
	_ = os.Remove(c.path)
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
	return dialWaiterAt(socketsOf(mountPoint))
}

func dialWaiterAt(paths []string) (*waiter, error) {
	conn, err := dialControlAt(paths, "wait")
	if err != nil {
		return nil, err
	}
	w := &waiter{conn, bufio.NewReader(conn)}
	if line, err := w.lines.ReadString('\n'); err != nil || line != waiting+"\n" {
		conn.Close()
		return nil, errNoDaemon
	}
	return w, nil
}

// end returns when the daemon has ended, with what it says went wrong.
func (w *waiter) end() (string, error) {
	line, err := w.lines.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// dialControl reaches the daemon of a mount point and sends it a word.
func dialControl(mountPoint, word string) (net.Conn, error) {
	return dialControlAt(socketsOf(mountPoint), word)
}

func dialControlAt(paths []string, word string) (net.Conn, error) {
	for _, path := range paths {
		conn, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		if _, err := io.WriteString(conn, word+"\n"); err != nil {
			conn.Close()
			continue
		}
		return conn, nil
	}
	return nil, errNoDaemon
}

// socketsOf are those where a daemon of this mount point may answer.
func socketsOf(mountPoint string) []string {
	var paths []string
	for _, dir := range socketDirs(mountPoint) {
		paths = append(paths, sockets(dir, mountPoint)...)
	}
	return paths
}
