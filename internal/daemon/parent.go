package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
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
	held chan os.Signal // nobody reads it

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
	p := newParent(conn, gone)
	signal.Notify(p.held, os.Interrupt, unix.SIGHUP)
	return p, nil
}

func newParent(conn net.Conn, gone func()) *Parent {
	p := &Parent{conn: conn, held: make(chan os.Signal, 1), over: make(chan struct{})}
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
func (p *Parent) Note(line string) {
	line = plain.Text(line)
	if line == "" {
		return
	}
	_, _ = p.conn.Write([]byte(line[:min(len(line), maxNote-1)] + "\n")) // runAwait sees the parent's end
}

// Leave leaves the process group and the terminal that the daemon was started from, and
// the directory. Until then the signals of the terminal are the parent's alone. It must be
// called once, after the mount point was last looked up: an automounter waits for whom it
// takes for a stranger.
func (p *Parent) Leave() {
	_, _ = unix.Setsid() // it fails for the leader of a group, which Start makes no daemon
	leaveTerminal()
}

// Ready reports that the mount is usable. From then on SIGINT and SIGHUP are for the
// daemon. It fails if the parent has ended. Whether the parent acts on it does not
// matter: it was notified.
func (p *Parent) Ready() error {
	signal.Stop(p.held)
	return p.notify()
}

func (p *Parent) notify() error {
	p.mu.Lock()
	_, err := p.conn.Write([]byte(readyLine))
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
