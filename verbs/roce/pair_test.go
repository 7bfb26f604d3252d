package roce

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

// end is one side of a connection, with an arena of its own.
type end struct {
	t     testing.TB
	dev   verbs.Device
	arena *mem.Arena
	conn  verbs.Conn
}

func newEnd(t testing.TB, c Config, size int) *end {
	t.Helper()
	a, err := mem.NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	d := Open(c)
	mr, err := d.Register(a)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{t: t, dev: d, arena: a}
	t.Cleanup(func() {
		if e.conn != nil {
			e.conn.Close()
		}
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		a.Close()
	})
	return e
}

func (e *end) options() verbs.ConnOptions {
	return verbs.ConnOptions{SendQueue: 64, RecvQueue: 64, ReadsIn: 16, ReadsOut: 16}
}

func (e *end) post(wr ...verbs.SendWR) {
	e.t.Helper()
	if _, err := e.conn.PostSend(wr); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) recv(id uint64, s mem.Seg) {
	e.t.Helper()
	if _, err := e.conn.PostRecv([]verbs.RecvWR{{ID: id, Buf: s}}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) next(ctx context.Context) verbs.Completion {
	e.t.Helper()
	var wc [1]verbs.Completion
	if _, err := e.conn.Wait(ctx, wc[:]); err != nil {
		e.t.Fatal(err)
	}
	return wc[0]
}

// bind has the peer reach s.
func (e *end) bind(s mem.Seg, a verbs.Access) (key uint32, va uint64) {
	e.t.Helper()
	w, err := e.conn.NewWindow()
	if err != nil {
		e.t.Fatal(err)
	}
	key = w.Next(s)
	e.post(verbs.SendWR{Op: verbs.OpBind, Window: w, Local: mem.Vec{s}, Access: a})
	return key, w.Addr(s)
}

// dial connects c to s, whose options are so, and returns when both are set up.
func dial(t testing.TB, c, s *end, co verbs.ConnOptions, at netip.Addr) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := s.dev.Listen(netip.AddrPortFrom(at, 0), verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go runAcceptFor(ctx, l, s, accepted)
	if c.conn, err = c.dev.Dial(ctx, l.Addr(), co); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
}

func runAcceptFor(ctx context.Context, l verbs.Listener, s *end, out chan<- error) {
	r, err := l.Accept(ctx)
	if err == nil {
		s.conn, err = r.Accept(ctx, s.options())
	}
	out <- err
}

// pair is two connected ends with size bytes each.
func pair(t testing.TB, size int) (client, server *end) {
	client, server = newEnd(t, Config{Local: rocetest.Loopback(t)}, size), newEnd(t, Config{}, size)
	dial(t, client, server, client.options(), rocetest.Loopback(t))
	return client, server
}
