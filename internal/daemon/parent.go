package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// Is reports whether this process is a daemon that Start has started.
func Is() bool {
	_, err := parentConn()
	return !errors.Is(err, errNotDaemon)
}

var errNotDaemon = errors.New("this process was not started as a daemon")

// parentConn is the daemon's end of the socket to its parent.
var parentConn = sync.OnceValues(func() (net.Conn, error) {
	if os.Getenv(readyEnvironment) == "" {
		return nil, errNotDaemon
	}
	os.Unsetenv(readyEnvironment)
	unix.CloseOnExec(readyFD)
	f := os.NewFile(readyFD, "ready")
	defer f.Close()
	conn, err := net.FileConn(f) // a copy
	if err != nil {
		return nil, fmt.Errorf("the socket to the command that started the daemon: %w", err)
	}
	return conn, nil
})

// Parent is the daemon's end of a socket to the process in Start. The daemon reports
// there that the mount is usable, once; until then the end of the connection, for
// whatever reason the parent ended it, is the end of the mount.
type Parent struct {
	conn net.Conn

	mu       sync.Mutex
	notified bool // Ready reached a parent that was there
	over     chan struct{}
}

// NewParent is the parent of this process, which is a daemon. gone is called when
// the parent has ended before Ready.
func NewParent(gone func()) (*Parent, error) {
	conn, err := parentConn()
	if err != nil {
		return nil, err
	}
	return newParent(conn, gone), nil
}

func newParent(conn net.Conn, gone func()) *Parent {
	p := &Parent{conn: conn, over: make(chan struct{})}
	go p.runAwait(gone)
	return p
}

// runAwait reads to the end of the connection; the parent never says anything.
func (p *Parent) runAwait(gone func()) {
	defer close(p.over)
	_, _ = p.conn.Read(make([]byte, 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.notified {
		gone()
	}
}

// Note has the parent print a line. It is for the time before Ready.
func (p *Parent) Note(line string) { plain.Fprintf(os.Stderr, "rdmafs: %s\n", line) }

// Ready reports that the mount is usable, and leaves the terminal and the directory
// that the daemon was started from. It fails if the parent has ended. Whether
// the parent acts on it does not matter: it was notified.
func (p *Parent) Ready() error {
	leaveTerminal()
	return p.notify()
}

func (p *Parent) notify() error {
	p.mu.Lock()
	_, err := p.conn.Write([]byte{1})
	p.notified = err == nil
	p.mu.Unlock()
	p.conn.Close()
	<-p.over
	return err
}

func leaveTerminal() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	_ = os.Chdir("/")
}
