package iwarp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// side is one end of a connected pair, with a registered arena.
type side struct {
	t     testing.TB
	dev   verbs.Device
	arena *mem.Arena
	conn  *conn
	// readsIn, when not 0, is asked for in place of the usual.
	readsIn int
}

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func options(recv []verbs.RecvWR) verbs.ConnOptions {
	return verbs.ConnOptions{SendQueue: 128, RecvQueue: 128, ReadsIn: 16, ReadsOut: 16,
		Prepare: func(q verbs.QP) error {
			_, err := q.PostRecv(recv)
			return err
		}}
}

func newSide(t testing.TB, c Config, size int) *side {
	s := &side{t: t, dev: Open(c)}
	var err error
	if s.arena, err = mem.NewArena(size); err != nil {
		t.Fatal(err)
	}
	mr, err := s.dev.Register(s.arena)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.conn != nil {
			s.conn.Close()
		}
		for _, f := range []func() error{mr.Close, s.dev.Close, s.arena.Close} {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// pair connects two sides; each receive has 4096 bytes at the arena's start.
func pair(t testing.TB, c Config, size, recvs int) (client, server *side) {
	client, server = newSide(t, c, size), newSide(t, c, size)
	l, err := server.dev.Listen(anyPort, verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := testContext(t)
	posted := func(s *side) verbs.ConnOptions {
		var r []verbs.RecvWR
		for i := range recvs {
			r = append(r, verbs.RecvWR{ID: uint64(i), Buf: s.arena.Seg(i*4096, 4096)})
		}
		return options(r)
	}
	type result struct {
		c   verbs.Conn
		err error
	}
	dialed := make(chan result, 1)
	go func() {
		c, err := client.dev.Dial(ctx, l.Addr(), posted(client))
		dialed <- result{c, err}
	}()
	r, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := r.Accept(ctx, posted(server))
	if err != nil {
		t.Fatal(err)
	}
	server.conn = sc.(*conn)
	d := <-dialed
	if d.err != nil {
		t.Fatal(d.err)
	}
	client.conn = d.c.(*conn)
	return client, server
}

func (s *side) post(wr ...verbs.SendWR) {
	s.t.Helper()
	if n, err := s.conn.PostSend(wr); err != nil || n != len(wr) {
		s.t.Fatalf("posted %d of %d: %v", n, len(wr), err)
	}
}

// next waits for one completion.
func (s *side) next() verbs.Completion {
	s.t.Helper()
	var wc [1]verbs.Completion
	if _, err := s.conn.Wait(testContext(s.t), wc[:]); err != nil {
		s.t.Fatal(err)
	}
	return wc[0]
}

func TestSendWriteRead(t *testing.T) {
	for _, c := range []Config{{}, {CRC: true}, {AlignToMSS: true, CRC: true}} {
		const size = 1 << 20
		client, server := pair(t, c, 2*size, 4)
		copy(client.arena.Bytes()[size:], "hello")
		client.post(verbs.SendWR{ID: 7, Op: verbs.OpSend, Signaled: true, Local: mem.Vec{client.arena.Seg(size, 5)}})
		if wc := client.next(); wc.ID != 7 || wc.Op != verbs.OpSend {
			t.Fatalf("send completed as %+v", wc)
		}
		if wc := server.next(); wc.Op != verbs.OpRecv || wc.Len != 5 || string(server.arena.Bytes()[:5]) != "hello" {
			t.Fatalf("received %+v", wc)
		}

		w, err := client.conn.NewWindow()
		if err != nil {
			t.Fatal(err)
		}
		seg := client.arena.Seg(size, size)
		key := w.Next(seg)
		client.post(
			verbs.SendWR{Op: verbs.OpBind, Window: w, Local: mem.Vec{seg}, Access: verbs.RemoteRead | verbs.RemoteWrite},
			verbs.SendWR{Op: verbs.OpSend})
		server.next()
		for i := range size {
			server.arena.Bytes()[size+i] = byte(i * 7)
		}
		server.post(
			verbs.SendWR{Op: verbs.OpWrite, Local: mem.Vec{server.arena.Seg(size, size)}, RKey: key, Addr: w.Addr(seg)},
			verbs.SendWR{Op: verbs.OpSend})
		client.next()
		for i := range size {
			if client.arena.Bytes()[size+i] != byte(i*7) {
				t.Fatalf("byte %d is %#x", i, client.arena.Bytes()[size+i])
			}
		}
		clear(server.arena.Bytes()[size:])
		done := make(chan struct{})
		go func() {
			defer close(done)
			var wc [1]verbs.Completion
			client.conn.Wait(testContext(t), wc[:])
		}()
		server.post(verbs.SendWR{ID: 9, Op: verbs.OpRead, Local: mem.Vec{server.arena.Seg(size, size)}, RKey: key, Addr: w.Addr(seg)})
		if wc := server.next(); wc.ID != 9 {
			t.Fatalf("read completed as %+v", wc)
		}
		for i := range size {
			if server.arena.Bytes()[size+i] != byte(i*7) {
				t.Fatalf("byte %d is %#x", i, server.arena.Bytes()[size+i])
			}
		}
		server.post(verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: key})
		<-done
		client.conn.Close()
		server.conn.Close()
	}
}
