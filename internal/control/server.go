package control

import (
	"bufio"
	"context"
	"encoding/json"
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

// Mount is the mount for which a Server answers.
type Mount struct {
	// Device is its device number in the mount table; "" when it is not known.
	Device string
	// Stats returns what "stats" is answered with, as JSON.
	Stats func() any
	// Used returns what "used" is answered with, likewise; nil if that is not counted.
	Used func() any
	// Sync makes everything written safe on the server; nil when there is nothing
	// to sync.
	Sync func(context.Context) error
	// SetLog changes what is logged, to a level that options.LogLevels has; nil if it cannot.
	SetLog func(level string) error
	// Remount changes the mount by a list of options.
	Remount func(ctx context.Context, list string) error
	// Abort makes requests that wait for the server fail from now on.
	Abort func()
}

// Server is the Unix socket on which the daemon of a mount answers: see the
// package comment for the protocol.
type Server struct {
	ln    *net.UnixListener
	path  string
	mount Mount // fixed by RunServe
	// ended is closed by Finish.
	ended chan struct{}
	// reserve is a descriptor to give up when a request has come and there is
	// none left to accept it with. Of RunServe.
	reserve *os.File

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	waiters map[net.Conn]struct{}
	closed  bool
	serving sync.WaitGroup
	// syncs are ended by their cancel function; nil when no more are accepted.
	syncs   map[net.Conn]context.CancelFunc
	syncing sync.WaitGroup
	// unreported is what syncs found lost after their clients had hung up.
	unreported []error
}

// New makes the socket for a mount point.
func New(mountPoint string) (*Server, error) {
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
	return &Server{
		ln: ln, path: path, ended: make(chan struct{}),
		conns:   make(map[net.Conn]struct{}),
		waiters: make(map[net.Conn]struct{}),
		syncs:   make(map[net.Conn]context.CancelFunc),
	}, nil
}

// RunServe answers for m until Finish.
func (s *Server) RunServe(m Mount) {
	s.mount = m
	defer func() {
		if s.reserve != nil {
			s.reserve.Close()
		}
	}()
	for {
		conn, err := s.accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns[conn] = struct{}{}
		s.serving.Add(1)
		s.mu.Unlock()
		go s.runAnswer(conn)
	}
}

// The time between attempts to accept that fail because a resource is lacking.
const (
	minAcceptInterval = 5 * time.Millisecond
	maxAcceptInterval = time.Second
)

// accept takes the next connection. It fails only after Finish: a lack of
// descriptors (EMFILE, ENFILE) or memory passes, and without this socket a mount
// cannot be ended in order. No event reports that it has passed, so accept tries
// again; the reserve descriptor serves the client that is waiting now.
func (s *Server) accept() (net.Conn, error) {
	for interval := minAcceptInterval; ; interval = min(2*interval, maxAcceptInterval) {
		if s.reserve == nil {
			s.reserve, _ = os.Open(os.DevNull)
		}
		conn, err := s.ln.Accept()
		if (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) && s.reserve != nil {
			s.reserve.Close()
			s.reserve = nil
			conn, err = s.ln.Accept()
		}
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		select {
		case <-time.After(interval):
		case <-s.ended:
			return nil, net.ErrClosed
		}
	}
}

// runAnswer answers one request. A client that sends none is dropped after
// AnswerTimeout, which is as long as it would wait itself.
func (s *Server) runAnswer(conn net.Conn) {
	defer s.serving.Done()
	defer s.drop(conn)
	_ = conn.SetDeadline(time.Now().Add(AnswerTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadString('\n')
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	device, list, _ := strings.Cut(rest, " ")
	if err != nil || device != "" && s.mount.Device != "" && device != s.mount.Device {
		return
	}
	if level, is := strings.CutPrefix(word, logPrefix); is {
		s.answerLog(conn, level)
		return
	}
	switch word {
	case "stats":
		answerStats(conn, s.mount.Stats())
	case "used":
		if s.mount.Used != nil {
			answerStats(conn, s.mount.Used())
		}
	case "abort":
		s.mount.Abort()
		_, _ = io.WriteString(conn, ok+"\n")
	case "wait":
		if s.hold(conn) {
			_ = conn.SetReadDeadline(time.Time{})
			awaitHangUp(conn)
		}
	case "sync":
		s.answerLong(conn, s.mount.Sync)
	case "remount":
		if s.mount.Remount != nil {
			s.answerLong(conn, func(ctx context.Context) error { return s.mount.Remount(ctx, list) })
		}
	}
}

// answerStats writes JSON without white space: indented, a full report would not fit maxAnswer.
func answerStats(conn net.Conn, v any) {
	if b, err := json.Marshal(v); err == nil {
		_, _ = conn.Write(append(plain.JSON(b), '\n'))
	}
}

// answerLog changes what is logged.
func (s *Server) answerLog(conn net.Conn, level string) {
	err := errors.New("this mount's log has no level that can be changed")
	if s.mount.SetLog != nil {
		err = s.mount.SetLog(level)
	}
	if err != nil {
		writeLine(conn, plain.OneLine(err))
		return
	}
	writeLine(conn, ok)
}

// hold promises a client that it will see the end: Finish writes to it and closes
// its connection.
func (s *Server) hold(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !writeLine(conn, waiting) {
		return false
	}
	s.waiters[conn] = struct{}{}
	return true
}

// awaitHangUp returns when a client, which sends nothing more, has hung up, or
// when its connection was closed here.
func awaitHangUp(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

// writeLine writes a line to a client. A client that reads lets it fit the socket;
// one that does not is given up after writeTimeout.
func writeLine(conn net.Conn, line string) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := io.WriteString(conn, line[:min(len(line), maxAnswer/2)]+"\n")
	return err == nil
}

// drop closes a connection, unless Finish does.
func (s *Server) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, conn)
	if _, ours := s.conns[conn]; ours {
		delete(s.conns, conn)
		conn.Close()
	}
}

// Finish tells waiting clients how the mount ended, and closes the socket.
func (s *Server) Finish(end error) {
	_ = s.StopSyncs() // the caller already has what it returns
	s.ln.Close()
	s.mu.Lock()
	s.closed = true
	close(s.ended)
	for w := range s.waiters {
		if end != nil {
			writeLine(w, plain.OneLine(end))
		}
	}
	for conn := range s.conns {
		conn.Close()
	}
	clear(s.conns)
	s.mu.Unlock()
	s.serving.Wait()
	_ = os.Remove(s.path)
}
