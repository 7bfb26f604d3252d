package tcp

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

func TestServerRefusesGarbage(t *testing.T) {
	addr, _ := startServer(t, func(context.Context, *transport.Request) transport.AcceptStat { return transport.Success },
		ServerConfig{MaxRecord: 4096})
	for name, b := range map[string][]byte{
		"too long":              words(lastFragment | 4097),
		"too long in fragments": append(append(words(4096), make([]byte, 4096)...), words(lastFragment|1)...),
		"no XID":                record(nil),
		"a reply":               record(answer(1, 2)),
		"half a call":           record(words(1, 0, 2)),
	} {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
		// A reset is as good an end as any: the server left bytes unread.
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: answered", name)
		}
		_ = conn.Close()
	}
	_, l := dial(t, addr, Config{})
	if err := l.Exchange(t.Context(), 1, nullCall()); err != nil {
		t.Error(err)
	}
}

// idleConn is a server's connection that has been idle for too long when the test
// says so, and not by any clock.
type idleConn struct {
	net.Conn
	armed chan struct{} // holds a token for each time a deadline was set
}

func (c *idleConn) SetReadDeadline(t time.Time) error {
	if t.Before(time.Now()) {
		return c.Conn.SetReadDeadline(t)
	}
	err := c.Conn.SetReadDeadline(time.Time{})
	c.armed <- struct{}{}
	return err
}

// expire lets the time pass that the connection may be idle.
func (c *idleConn) expire() { _ = c.Conn.SetReadDeadline(time.Unix(1, 0)) }

// idleListener makes idleConns.
type idleListener struct {
	net.Listener
	accepted chan *idleConn
}

func (l *idleListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &idleConn{conn, make(chan struct{}, 100)}
	l.accepted <- c
	return c, nil
}

// TestServerClosesIdleConnections: one with a call under way is not idle.
func TestServerClosesIdleConnections(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	ln := &idleListener{listen(t), make(chan *idleConn, 1)}
	addr := serveOn(t, ln, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		close(began)
		<-release
		return transport.Success
	}, ServerConfig{Idle: time.Hour})
	_, idle := dial(t, addr, Config{})
	idleAt := <-ln.accepted
	_, busy := dial(t, addr, Config{})
	busyAt := <-ln.accepted
	<-idleAt.armed
	idleAt.expire()
	<-idle.Done()

	answered := make(chan error, 1)
	go func() { answered <- busy.Exchange(t.Context(), 1, nullCall()) }()
	<-began
	<-busyAt.armed // for the call
	<-busyAt.armed // for the next one
	busyAt.expire()
	select {
	case <-busyAt.armed:
	case <-busy.Done():
		t.Fatalf("a connection with a call under way was closed: %v", busy.Err())
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for { // until the server has counted the call as answered
		busyAt.expire()
		select {
		case <-busyAt.armed:
			continue
		case <-busy.Done():
		}
		break
	}
}

// TestServerBoundsConnections: one too many is closed, and another accepted
// once there is room.
func TestServerBoundsConnections(t *testing.T) {
	addr, _ := startServer(t, func(context.Context, *transport.Request) transport.AcceptStat { return transport.Success },
		ServerConfig{MaxConns: 1})
	_, first := dial(t, addr, Config{})
	if err := first.Exchange(t.Context(), 1, nullCall()); err != nil {
		t.Fatal(err)
	}
	_, second := dial(t, addr, Config{})
	<-second.Done()
	_ = first.Close()
	for {
		_, l := dial(t, addr, Config{})
		if l.Exchange(t.Context(), 1, nullCall()) == nil {
			return // the server has noticed that the first is gone
		}
	}
}

// TestServerStopsGracefully: a call under way is answered, and Serve returns.
func TestServerStopsGracefully(t *testing.T) {
	began := make(chan struct{})
	addr, stop := startServer(t, func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		close(began)
		<-ctx.Done()
		q.Reply.Uint32(9)
		return transport.Success
	}, ServerConfig{})
	_, l := dial(t, addr, Config{})
	answered := make(chan error, 1)
	go func() { answered <- l.Exchange(t.Context(), 1, wantWord(9)) }()
	<-began
	stop()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-l.Done()
}

func TestLeases(t *testing.T) {
	l := &leases{max: 1 << 20, budget: 2 << 20}
	defer l.close()
	if _, err := l.get(1<<20 + 1); err == nil {
		t.Error("a lease beyond the bound")
	}
	a, err1 := l.get(1 << 20)
	b, err2 := l.get(5000)
	if err1 != nil || err2 != nil || a.Len != 1<<20 || b.Len != 5000 {
		t.Fatal(a, b, err1, err2)
	}
	if _, err := l.get(100); err == nil {
		t.Error("a lease beyond the budget")
	}
	l.put(b)
	c, err := l.get(8192)
	if err != nil || c.Len != 8192 {
		t.Errorf("%v, %v", c, err)
	}
	l.put(c)
	l.put(a)
	seen := map[int]bool{}
	for range leaseSlab / 8192 {
		s, err := l.get(8192)
		if err != nil || seen[s.Off] {
			t.Fatalf("%v twice, %v", s, err)
		}
		seen[s.Off] = true
	}
}

// TestServerLeavesDeafClients: one that sends calls and does not read the
// replies is let go, with all that it held.
func TestServerLeavesDeafClients(t *testing.T) {
	addr, stop := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		s, err := q.Lease(1 << 20)
		if err != nil {
			return transport.SystemErr
		}
		q.Reply.Payload(q.AddPayload(transport.Payload{s}))
		return transport.Success
	}, ServerConfig{Idle: 20 * time.Millisecond, Concurrent: 4})
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := record(words(1, 0, 2, 1, 1, 0, 0, 0, 0, 0))
	for err == nil {
		_, err = conn.Write(call) // until the server has closed its half
	}
	stop()
}
