package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

type handlerFunc func(ctx context.Context, q *transport.Request) transport.AcceptStat

func (f handlerFunc) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return f(ctx, q)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// startServer runs Serve until the returned function, or the test, ends it.
func startServer(t *testing.T, h handlerFunc, cfg ServerConfig) (addr netip.AddrPort, stop func()) {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	cfg.Logf = t.Logf
	go func() { done <- Serve(ctx, ln, h, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return ln.Addr().(*net.TCPAddr).AddrPort(), stop
}

func dial(t *testing.T, addr netip.AddrPort, cfg Config) (*Dialer, transport.Link) {
	t.Helper()
	cfg.Addr = addr
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return d, l
}

// scripted listens for one connection and runs f on it.
func scripted(t *testing.T, f func(conn net.Conn)) netip.AddrPort {
	t.Helper()
	ln := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		f(conn)
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// readRecord reads a record of one fragment.
func readRecord(conn net.Conn) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(conn, mark[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^lastFragment)
	_, err := io.ReadFull(conn, b)
	return b, err
}

func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func arena(t *testing.T, n int) *mem.Arena {
	t.Helper()
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func nullCall() *transport.Call { return &transport.Call{Prog: 0x20000001, Vers: 1} }

// answer makes the reply to nullCall, with a result of one word.
func answer(xid, word uint32) []byte { return words(xid, 1, 0, 0, 0, 0, word) }

func record(b []byte) []byte { return append(words(lastFragment|uint32(len(b))), b...) }

func wantWord(w uint32) *transport.Call {
	c := nullCall()
	c.ReplyMax = 4
	c.Result = func(r *xdr.Reader) error {
		if got := r.Uint32(); got != w {
			r.Fail("result %d, want %d", got, w)
		}
		return r.End()
	}
	return c
}

// TestRepliesAreFound sends, around the reply, everything a client must cope
// with: other XIDs, calls, scraps, empty fragments, a reply in single bytes.
func TestRepliesAreFound(t *testing.T) {
	addr := scripted(t, func(conn net.Conn) {
		call, err := readRecord(conn)
		if err != nil {
			return
		}
		xid := binary.BigEndian.Uint32(call)
		out := record(answer(xid+1, 1))
		out = append(out, record(answer(xid+2, 2))...)
		out = append(out, record(words(xid, 0, 2, 3, 4, 5, 0, 0, 0, 0))...)
		out = append(out, record(nil)...)
		out = append(out, record([]byte{1, 2, 3})...)
		out = append(out, record(make([]byte, 100_000))...)
		out = append(out, words(0, 0)...)
		for i, c := range answer(xid, 42) {
			mark := uint32(1)
			if i == 27 {
				mark |= lastFragment
			}
			out = append(append(out, words(mark)...), c)
		}
		_, _ = conn.Write(out)
		_, _ = io.Copy(io.Discard, conn)
	})
	d, l := dial(t, addr, Config{})
	if err := l.Exchange(t.Context(), 0xfffffff0, wantWord(42)); err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); s.BadXIDs != 2 || s.BadReplies != 4 || s.Replies != 1 || s.Calls != 1 {
		t.Errorf("%+v", s)
	}
}

// TestReplyBeyondBound: the call fails, the link lives on.
func TestReplyBeyondBound(t *testing.T) {
	addr := scripted(t, func(conn net.Conn) {
		for {
			call, err := readRecord(conn)
			if err != nil {
				return
			}
			xid := binary.BigEndian.Uint32(call)
			b := answer(xid, 7)
			if xid == 1 {
				b = append(b, make([]byte, 10_000)...)
			}
			_, _ = conn.Write(record(b))
		}
	})
	_, l := dial(t, addr, Config{})
	err := l.Exchange(t.Context(), 1, wantWord(7))
	var e *transport.Error
	if !errors.Is(err, transport.ErrProtocol) || !errors.As(err, &e) || e.Fate != transport.Answered {
		t.Errorf("reply too long: %v", err)
	}
	if err := l.Exchange(t.Context(), 2, wantWord(7)); err != nil {
		t.Error(err)
	}
}

// TestGarbageEndsLink: what cannot be skipped within the bound costs the link.
func TestGarbageEndsLink(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"huge record":      words(0xffffffff, 5, 1),
		"endless fragment": append(words(0x7fffffff, 9, 1), make([]byte, 100)...),
		"cut in the mark":  {0x80, 0},
		"cut in the head":  words(lastFragment|100, 5),
		"cut in the reply": words(lastFragment|28, 5, 1, 0),
		"nothing":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			addr := scripted(t, func(conn net.Conn) {
				_, _ = readRecord(conn)
				_, _ = conn.Write(garbage)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			})
			_, l := dial(t, addr, Config{})
			err := l.Exchange(t.Context(), 5, wantWord(1))
			var e *transport.Error
			if !errors.As(err, &e) || e.Fate != transport.Unknown || l.Err() == nil {
				if e == nil || e.Fate != transport.Answered || !errors.Is(err, transport.ErrProtocol) {
					t.Errorf("%v, link %v", err, l.Err())
				}
			}
			<-l.Done()
			err = l.Exchange(t.Context(), 6, wantWord(1))
			if !errors.As(err, &e) || e.Fate != transport.NotSent {
				t.Errorf("on the dead link: %v", err)
			}
		})
	}
}

// TestCancelledInMidWrite cancels a call whose payload the socket has taken
// only in part, changes the payload, and finds that the server reads what the
// call was made with, and that the stream goes on.
func TestCancelledInMidWrite(t *testing.T) {
	const size = 16 << 20
	proceed := make(chan struct{})
	records := make(chan []byte, 8)
	addr := scripted(t, func(conn net.Conn) {
		defer close(records)
		var first [4]byte
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return
		}
		<-proceed
		b := make([]byte, binary.BigEndian.Uint32(first[:])&^lastFragment)
		for {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			records <- b
			_, _ = conn.Write(record(answer(binary.BigEndian.Uint32(b), 3)))
			if _, err := io.ReadFull(conn, first[:]); err != nil {
				return
			}
			b = make([]byte, binary.BigEndian.Uint32(first[:])&^lastFragment)
		}
	})
	d, l := dial(t, addr, Config{MaxRecord: 64 << 20})
	a := arena(t, size)
	want := bytes.Repeat([]byte("payload."), size/8)
	copy(a.Bytes(), want)
	bulk := func() *transport.Call {
		c := nullCall()
		c.Send = []mem.Vec{{a.Seg(0, size/2), a.Seg(size/2, size/2)}}
		c.Args = func(w *xdr.Writer) { w.Payload(0); w.Uint32(77) }
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	leader := make(chan error, 1)
	go func() { leader <- l.Exchange(ctx, 1, bulk()) }()
	blocked(t, l.(*link), 1)
	// A second call queues behind it, and is cancelled there.
	queued := make(chan error, 1)
	ctx2, cancel2 := context.WithCancel(t.Context())
	go func() { queued <- l.Exchange(ctx2, 2, bulk()) }()
	blocked(t, l.(*link), 2)
	cancel2()
	var e *transport.Error
	if err := <-queued; !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Fate != transport.NotSent {
		t.Errorf("cancelled in the queue: %v", err)
	}
	third := make(chan error, 1)
	go func() { third <- l.Exchange(t.Context(), 3, wantWord(3)) }()
	blocked(t, l.(*link), 2)
	cancel()
	if err := <-leader; !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Fate != transport.Unknown {
		t.Errorf("cancelled in mid-write: %v", err)
	}
	clear(a.Bytes())
	close(proceed)
	if err := <-third; err != nil {
		t.Errorf("the call behind: %v", err)
	}
	if err := l.Exchange(t.Context(), 4, wantWord(3)); err != nil {
		t.Errorf("the call after: %v", err)
	}
	_ = l.Close()
	got := <-records
	head := oncrpc.CallHeaderLen(bulk(), "")
	if binary.BigEndian.Uint32(got) != 1 || !bytes.Equal(got[head+4:head+4+size], want) || !bytes.Equal(got[head+4+size:], words(77)) {
		t.Error("the cancelled call's record was changed")
	}
	for _, xid := range []uint32{3, 4} {
		if got := <-records; binary.BigEndian.Uint32(got) != xid {
			t.Errorf("then came XID %d, want %d", binary.BigEndian.Uint32(got), xid)
		}
	}
	if s := d.Stats(); s.BadXIDs != 1 || s.Replies != 2 {
		t.Errorf("%+v", s)
	}
}

// blocked waits until n packets are being written or queued.
func blocked(t *testing.T, l *link, n int) {
	t.Helper()
	for {
		l.out.mu.Lock()
		have := len(l.out.queue)
		for _, s := range l.out.batch {
			if s.p != nil {
				have++
			}
		}
		l.out.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-l.done:
			t.Fatal(l.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

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

func TestServerClosesIdleConnections(t *testing.T) {
	release := make(chan struct{})
	addr, _ := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		<-release
		return transport.Success
	}, ServerConfig{Idle: 20 * time.Millisecond})
	_, idle := dial(t, addr, Config{})
	_, busy := dial(t, addr, Config{})
	answered := make(chan error, 1)
	go func() { answered <- busy.Exchange(t.Context(), 1, nullCall()) }()
	<-idle.Done()
	if busy.Err() != nil {
		t.Errorf("a connection with a call under way was closed: %v", busy.Err())
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-busy.Done()
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

func FuzzRecords(f *testing.F) {
	f.Add(record([]byte("hello world")), 5)
	f.Add(append(words(3), append([]byte("abc"), record([]byte("defgh"))...)...), 100)
	f.Add(words(0xffffffff), 1<<20)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		in := newRecords(bytes.NewReader(b))
		for in.next() == nil {
			rec, err := in.rest(getBuffer(0), limit)
			if len(rec.b) > limit {
				t.Fatalf("%d bytes read, bound %d", len(rec.b), limit)
			}
			rec.put()
			if err == errTooLong {
				err = in.skip(limit)
			}
			if err != nil {
				return
			}
		}
	})
}
