package main

import (
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// parent is the daemon's end of a socket to the command that started it. The
// daemon says there that the mount is usable, once; until then the parent's end
// of the connection, for whatever reason, is the end of the mount.
type parent struct {
	conn net.Conn

	mu   sync.Mutex
	told bool // ready was said to a parent that was there
	over chan struct{}
}

// newParent takes conn. gone is called when the parent has gone before it was
// told.
func newParent(conn net.Conn, gone func()) *parent {
	p := &parent{conn: conn, over: make(chan struct{})}
	go p.runAwait(gone)
	return p
}

// runAwait reads to the end of the connection; the parent never says anything.
func (p *parent) runAwait(gone func()) {
	defer close(p.over)
	_, _ = p.conn.Read(make([]byte, 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.told {
		gone()
	}
}

// tell says that the mount is usable. It fails if the parent has gone. What the
// parent makes of it is its own affair: it is told.
func (p *parent) tell() error {
	p.mu.Lock()
	_, err := p.conn.Write([]byte{1})
	p.told = err == nil
	p.mu.Unlock()
	p.conn.Close()
	<-p.over
	return err
}

// parentConn is the daemon's end, nil when this is not the daemon.
var parentConn = sync.OnceValue(func() net.Conn {
	if os.Getenv(readyEnv) == "" {
		return nil
	}
	os.Unsetenv(readyEnv)
	unix.CloseOnExec(readyFD)
	f := os.NewFile(readyFD, "ready")
	defer f.Close()
	conn, err := net.FileConn(f) // a copy
	if err != nil {
		// Without it this process would start a daemon itself, and so on.
		plain.Fprintf(os.Stderr, "rdmafs: the socket to the command that started the daemon: %v\n", err)
		os.Exit(exitSystem)
	}
	return conn
})

// isDaemon tells whether this process was started by daemonize.
func isDaemon() bool { return parentConn() != nil }
