package tcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// ServerConfig bounds what clients may take of a server.
type ServerConfig struct {
	// MaxPayload bounds a lease; 0 means 1 MiB.
	MaxPayload int
	// MaxRecord bounds a call; 0 means MaxPayload and 64 KiB.
	MaxRecord int
	// Concurrent bounds the calls under way on one connection; 0 means 64.
	Concurrent int
	// MaxConns bounds the connections; more are closed at once. 0 means 1024.
	MaxConns int
	// LeaseBytes bounds the memory for replies' payloads; 0 means 1 GiB.
	LeaseBytes int
	// Idle is the time after which a connection without calls is closed, or one
	// whose client does not read what is sent. 0 means 6 minutes, as with the Linux
	// server.
	Idle time.Duration
	// Upgrade, if set, has each new connection to itself before the first record, for the
	// time Idle at most, and returns what carries the records, as that of Config does: conn
	// itself, with what was read of it already, or an encrypted conn over it. An error ends
	// the connection.
	Upgrade func(ctx context.Context, conn net.Conn) (over net.Conn, ahead []byte, err error)
	// Log may be nil. It gets what went wrong with a connection.
	Log *slog.Logger
}

// drainTimeout bounds the time for sending replies once the server has been told to
// stop: a client may not read them.
const drainTimeout = 2 * time.Second

type server struct {
	cfg    ServerConfig
	h      transport.Handler
	leases leases

	wg sync.WaitGroup // runConn

	mu    sync.Mutex
	conns map[*serverConn]struct{}
	stop  bool
}

// Serve answers the calls that arrive on connections of ln with h until ctx ends or
// ln fails; it returns the error of ln. It takes ln. When ctx ends, so does the
// context of outstanding calls, which are still answered; when Serve returns, no
// goroutine of it is running.
func Serve(ctx context.Context, ln net.Listener, h transport.Handler, cfg ServerConfig) error {
	setDefault(&cfg.MaxPayload, DefaultMaxPayload)
	setDefault(&cfg.MaxRecord, cfg.MaxPayload+64<<10)
	setDefault(&cfg.Concurrent, DefaultConcurrent)
	setDefault(&cfg.MaxConns, 1024)
	setDefault(&cfg.LeaseBytes, 1<<30)
	if cfg.Idle <= 0 {
		cfg.Idle = 6 * time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{cfg: cfg, h: h, conns: map[*serverConn]struct{}{}}
	s.leases.max, s.leases.budget = cfg.MaxPayload, cfg.LeaseBytes

	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_ = ln.Close()
		close(closed)
	})
	err := s.accept(ctx, ln)
	cancel()
	<-closed
	s.shutdown()
	s.wg.Wait()
	return errors.Join(err, s.leases.close())
}

// accept starts a runConn for every connection until ctx ends.
func (s *server) accept(ctx context.Context, ln net.Listener) error {
	pause := acceptPause
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Out of descriptors or memory, or a client gone already: that
			// passes, but must not keep a processor busy.
			s.cfg.Log.Warn(fmt.Sprintf("accept: %v; again in %v", err, pause))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = acceptPause
		s.start(ctx, conn)
	}
}

const acceptPause = 5 * time.Millisecond

func (s *server) start(ctx context.Context, conn net.Conn) {
	if tc, ok := conn.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(keepAlive) // an old kernel's refusal costs only the probes
	}
	c := newServerConn(s, conn)
	s.mu.Lock()
	full := len(s.conns) >= s.cfg.MaxConns
	if !full {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		s.cfg.Log.Warn(fmt.Sprintf("%s: refused, there are %d connections", c.peer, s.cfg.MaxConns))
		_ = conn.Close()
		return
	}
	s.wg.Add(1)
	go c.runConn(ctx)
}

// shutdown makes every connection end once its calls are answered.
func (s *server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	for c := range s.conns {
		c.drain()
	}
}

func (s *server) drop(c *serverConn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.wg.Done()
}
