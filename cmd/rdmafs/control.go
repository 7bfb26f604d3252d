package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
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
//	wait    nothing; the connection ends when the mount has ended and its data
//	        is safe, with a line before it if that failed
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

// runtimeDirs are where sockets are, the own one first.
func runtimeDirs() []string {
	const system = "/run/rdmafs"
	uid := os.Geteuid()
	if uid == 0 {
		return []string{system}
	}
	own := filepath.Join(os.TempDir(), fmt.Sprintf("rdmafs-%d", uid))
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		own = filepath.Join(d, "rdmafs")
	}
	return []string{own, system}
}

func socketName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x.sock", sum[:8])
}

// newControl makes the socket for a mount point.
func newControl(mountPoint string) (*control, error) {
	dir := runtimeDirs()[0]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of control sockets: %w", err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return nil, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s must be a directory that only this user can write to (remove it, or set XDG_RUNTIME_DIR)", dir)
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
			e := json.NewEncoder(conn)
			e.SetIndent("", "  ")
			_ = e.Encode(st.snapshot())
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
		c.waiters = append(c.waiters, conn)
		return
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

// errNoDaemon: nobody answers for a mount point.
var errNoDaemon = errors.New("no rdmafs daemon of yours answers for this mount point")

// dialControl reaches the daemon of a mount point and sends it a word.
func dialControl(mountPoint, word string) (net.Conn, error) {
	for _, dir := range runtimeDirs() {
		base := filepath.Join(dir, socketName(mountPoint))
		stacked, _ := filepath.Glob(strings.TrimSuffix(base, ".sock") + "-*.sock")
		for _, path := range append(stacked, base) { // the upper mount first
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
	}
	return nil, errNoDaemon
}
