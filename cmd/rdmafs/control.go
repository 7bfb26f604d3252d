package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// control is the Unix socket on which the daemon of a mount answers. A request
// is one word and a newline:
//
//	stats   a JSON object, and the end of the connection
//	wait    "waiting"; the connection ends when the mount has ended and its
//	        data is safe, with a line before it if that failed
//	sync    "waiting"; when everything written is safe on the server "done",
//	        or a line that says what failed, or the end of the connection when
//	        the mount ends before
//	abort   requests that wait for the server fail from now on; "ok"
//
// Behind the word may stand the device number of the mount that is meant. A
// daemon that serves another one, which was detached from the same place,
// ends the connection without a word.
type control struct {
	ln     *net.UnixListener
	path   string
	device string // fixed by runServe; empty when it is not known

	// sync makes everything written safe on the server. Fixed before runServe;
	// nil when there is nothing to sync.
	sync func(context.Context) error
	// ended is closed by finish.
	ended chan struct{}
	// reserve is a descriptor to give up when a request has come and there is
	// none left to accept it with. Of runServe.
	reserve *os.File

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	waiters map[net.Conn]struct{}
	closed  bool
	serving sync.WaitGroup
	// syncs are ended by their cancel function; nil when no more are taken.
	syncs   map[net.Conn]context.CancelFunc
	syncing sync.WaitGroup
	// unheard is what syncs found lost whose clients had gone.
	unheard []error
}

func socketName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x.sock", sum[:8])
}

// newControl makes the socket for a mount point.
func newControl(mountPoint string) (*control, error) {
	dir, err := makePlace()
	if err != nil {
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
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &control{
		ln: ln, path: path, ended: make(chan struct{}),
		conns:   make(map[net.Conn]struct{}),
		waiters: make(map[net.Conn]struct{}),
		syncs:   make(map[net.Conn]context.CancelFunc),
	}, nil
}

// runServe answers for the mount with a device number, until finish.
func (c *control) runServe(st *status, device string, abort func()) {
	c.device = device
	defer func() {
		if c.reserve != nil {
			c.reserve.Close()
		}
	}()
	for {
		conn, err := c.accept()
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

// The time between attempts to accept that fail for want of something.
const (
	leastAcceptPause = 5 * time.Millisecond
	mostAcceptPause  = time.Second
)

// accept takes the next connection. It fails after finish alone: a descriptor
// (EMFILE, ENFILE) or memory that lacks now will be there again, and without
// this socket a mount cannot be ended in order. Nothing tells when, so accept
// tries again, and gives up the reserve for the one that waits now.
func (c *control) accept() (net.Conn, error) {
	for pause := leastAcceptPause; ; pause = min(2*pause, mostAcceptPause) {
		if c.reserve == nil {
			c.reserve, _ = os.Open(os.DevNull)
		}
		conn, err := c.ln.Accept()
		if (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) && c.reserve != nil {
			c.reserve.Close()
			c.reserve = nil
			conn, err = c.ln.Accept()
		}
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-c.ended:
			return nil, net.ErrClosed
		}
	}
}

// runAnswer answers one request. A client that says nothing is not waited for
// longer than it would wait.
func (c *control) runAnswer(conn net.Conn, st *status, abort func()) {
	defer c.serving.Done()
	defer c.drop(conn)
	_ = conn.SetDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(io.LimitReader(conn, 64)).ReadString('\n')
	word, device, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || device != "" && c.device != "" && device != c.device {
		return
	}
	switch word {
	case "stats":
		_ = printJSON(conn, st.snapshot())
	case "abort":
		abort()
		_, _ = io.WriteString(conn, "ok\n")
	case "wait":
		if c.hold(conn) {
			_ = conn.SetReadDeadline(time.Time{})
			awaitHangUp(conn)
		}
	case "sync":
		c.answerSync(conn)
	}
}

// hold tells a client that it will see the end. From then on finish tells it.
func (c *control) hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !tell(conn, waiting) {
		return false
	}
	c.waiters[conn] = struct{}{}
	return true
}

// answerSync syncs and says how that went. It ends with the client, and with
// stopSyncs.
func (c *control) answerSync(conn net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.mu.Lock()
	taken := c.syncs != nil && c.sync != nil && tell(conn, waiting)
	if taken {
		c.syncs[conn] = cancel
		c.syncing.Add(1)
	}
	c.mu.Unlock()
	if !taken {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go runHangUp(conn, cancel, gone)
	err := c.sync(ctx)
	heard := false
	switch {
	case ctx.Err() != nil:
	case err != nil:
		heard = tell(conn, plain.OneLine(err))
	default:
		heard = tell(conn, done)
	}
	c.mu.Lock()
	if !heard {
		c.unheard = append(c.unheard, losses(err)...)
	}
	delete(c.syncs, conn)
	c.mu.Unlock()
	c.syncing.Done()
	_ = conn.SetReadDeadline(time.Now())
	<-gone
}

// losses are the parts of a sync's error that are more than that it was ended.
// The cache tells each of them once.
func losses(err error) (all []error) {
	parts := []error{err}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		parts = joined.Unwrap()
	}
	for _, e := range parts {
		if e != nil && !errors.Is(e, context.Canceled) {
			all = append(all, e)
		}
	}
	return all
}

// runHangUp cancels what a client waits for when it has gone.
func runHangUp(conn net.Conn, cancel func(), gone chan<- struct{}) {
	defer close(gone)
	awaitHangUp(conn)
	cancel()
}

// awaitHangUp returns when a client that has nothing more to say has gone, or
// its connection was closed here.
func awaitHangUp(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

// tell writes a line to a client, which reads what it asked for: the line fits
// the socket, or the client does not wait for it.
func tell(conn net.Conn, line string) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := io.WriteString(conn, line[:min(len(line), maxAnswer/2)]+"\n")
	return err == nil
}

// drop closes a connection, unless finish does.
func (c *control) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiters, conn)
	if _, ours := c.conns[conn]; ours {
		delete(c.conns, conn)
		conn.Close()
	}
}

// stopSyncs ends syncs under way without a word, and takes no more: the cache
// is about to be closed. The error is what was lost, and no client heard of.
func (c *control) stopSyncs() error {
	c.mu.Lock()
	for _, cancel := range c.syncs {
		cancel()
	}
	c.syncs = nil
	c.mu.Unlock()
	c.syncing.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	unheard := errors.Join(c.unheard...)
	c.unheard = nil
	return unheard
}

// finish tells those who wait how the mount ended, and closes the socket.
func (c *control) finish(end error) {
	_ = c.stopSyncs() // whoever ends the mount has asked
	c.ln.Close()
	c.mu.Lock()
	c.closed = true
	close(c.ended)
	for w := range c.waiters {
		if end != nil {
			tell(w, plain.OneLine(end))
		}
	}
	for conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
	c.mu.Unlock()
	c.serving.Wait()
	_ = os.Remove(c.path)
}
