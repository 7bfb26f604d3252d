package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
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
	return ln.Addr().(*net.TCPAddr).AddrPort(), startOn(t, ln, h, cfg)
}

// serveOn is startServer with a listener of the test's.
func serveOn(t *testing.T, ln net.Listener, h handlerFunc, cfg ServerConfig) netip.AddrPort {
	startOn(t, ln, h, cfg)
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func startOn(t *testing.T, ln net.Listener, h handlerFunc, cfg ServerConfig) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	cfg.Log = testlog.New(t)
	go func() { done <- Serve(ctx, ln, h, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
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

// TestGarbageEndsLink: what cannot be skipped within the bound costs the link,
// and no more than the call it was taken for is known to be answered.
func TestGarbageEndsLink(t *testing.T) {
	for name, tc := range map[string]struct {
		garbage []byte
		fate    transport.Fate
		is      error
	}{
		"huge reply":       {words(0xffffffff, 5, 1), transport.Answered, transport.ErrProtocol},
		"huge record":      {words(0xffffffff, 9, 1), transport.Unknown, transport.ErrProtocol},
		"endless fragment": {append(words(0x7fffffff, 9, 1), make([]byte, 100)...), transport.Unknown, transport.ErrProtocol},
		"cut in the mark":  {[]byte{0x80, 0}, transport.Unknown, io.ErrUnexpectedEOF},
		"cut in the head":  {words(lastFragment|100, 5), transport.Unknown, io.ErrUnexpectedEOF},
		"cut in the reply": {words(lastFragment|28, 5, 1, 0), transport.Unknown, io.ErrUnexpectedEOF},
		"cut in between":   {words(8, 5, 1), transport.Unknown, io.ErrUnexpectedEOF},
		"nothing":          {nil, transport.Unknown, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			addr := scripted(t, func(conn net.Conn) {
				_, _ = readRecord(conn)
				_, _ = conn.Write(tc.garbage)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			})
			_, l := dial(t, addr, Config{})
			err := l.Exchange(t.Context(), 5, wantWord(1))
			var e *transport.Error
			if !errors.As(err, &e) || e.Fate != tc.fate || !errors.Is(err, tc.is) {
				t.Errorf("%v, want %v and %v", err, tc.fate, tc.is)
			}
			<-l.Done()
			if l.Err() == nil {
				t.Error("a dead link without reason")
			}
			err = l.Exchange(t.Context(), 6, wantWord(1))
			if !errors.As(err, &e) || e.Fate != transport.NotSent {
				t.Errorf("on the dead link: %v", err)
			}
		})
	}
}

// TestCallsAtFault are refused without a byte sent, and the link lives on.
func TestCallsAtFault(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	addr, _ := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		began <- struct{}{}
		<-release
		return transport.Success
	}, ServerConfig{})
	d, l := dial(t, addr, Config{MaxRecord: 100})
	long := nullCall()
	long.Args = func(w *xdr.Writer) { w.Fixed(make([]byte, 61)) }
	var e *transport.Error
	if err := l.Exchange(t.Context(), 1, long); !errors.As(err, &e) || e.Fate != transport.NotSent {
		t.Errorf("a call that is too long: %v", err)
	}
	answered := make(chan error, 1)
	go func() { answered <- l.Exchange(t.Context(), 2, nullCall()) }()
	<-began
	if err := l.Exchange(t.Context(), 2, nullCall()); !errors.As(err, &e) || e.Fate != transport.NotSent {
		t.Errorf("an XID used twice: %v", err)
	}
	close(release)
	if err := <-answered; err != nil || l.Err() != nil {
		t.Errorf("%v, link %v", err, l.Err())
	}
	if s := d.Stats(); s.Calls != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReservedPort(t *testing.T) {
	peers := make(chan string, 1)
	addr, _ := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		peers <- q.Peer
		return transport.Success
	}, ServerConfig{})
	d, err := NewDialer(Config{Addr: addr, ReservedPort: true, LocalAddr: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Dial(t.Context())
	if errors.Is(err, syscall.EACCES) {
		t.Skip("not privileged")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Exchange(t.Context(), 1, nullCall()); err != nil {
		t.Fatal(err)
	}
	if p := netip.MustParseAddrPort(<-peers).Port(); p < 665 || p > 1023 {
		t.Errorf("came from port %d", p)
	}
}

func TestDialReportsWhy(t *testing.T) {
	ln := listen(t)
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	_ = ln.Close()
	d, err := NewDialer(Config{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Dial(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) || strings.Count(err.Error(), addr.String()) != 1 {
		t.Errorf("%v", err)
	}
	if s := d.Stats(); s.ConnectFails != 1 || s.Connects != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := NewDialer(Config{}); err == nil {
		t.Error("a dialer to nowhere")
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
