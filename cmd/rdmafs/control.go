package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// control is the Unix socket on which the daemon of a mount answers. A request
// is one word and a newline:
//
//	stats   a JSON object, and the end of the connection
//	wait    "waiting"; the connection ends when the mount has ended and its
//	        data is safe, with a line before it if that failed
//	abort   requests that wait for the server fail from now on; "ok"
//
// Behind the word may stand the device number of the mount that is meant. A
// daemon that serves another one, which was detached from the same place,
// ends the connection without a word.
type control struct {
	ln     *net.UnixListener
	path   string
	device string // fixed by runServe; empty when it is not known

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
		hint := "is /run writable?"
		if os.Geteuid() != 0 {
			hint = "set XDG_RUNTIME_DIR to a directory of yours, or unset it and TMPDIR"
		}
		return nil, fmt.Errorf("cannot make the directory of control sockets: %w (%s)", err, hint)
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

// runServe answers for the mount with a device number, until finish.
func (c *control) runServe(st *status, device string, abort func()) {
	c.device = device
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
	line, err := bufio.NewReader(io.LimitReader(conn, 64)).ReadString('\n')
	word, device, _ := strings.Cut(strings.TrimSpace(line), " ")
	keep := false
	if err == nil && (device == "" || c.device == "" || device == c.device) {
		switch word {
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
