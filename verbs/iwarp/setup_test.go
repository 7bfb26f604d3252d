package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// bareListener takes TCP connections for a test that plays the responder.
func bareListener(t *testing.T) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, addrPort(l.Addr())
}

// runResponder answers each connection's request with what reply makes of it,
// and then hands the connection to serve, when there is one.
func runResponder(l *net.TCPListener, reply func(try int, req mpaFrame) []byte, serve func(s *net.TCPConn), done chan<- struct{}) {
	defer close(done)
	for try := 0; ; try++ {
		s, err := l.AcceptTCP()
		if err != nil {
			return
		}
		req, err := readMPA(s, false)
		if err == nil {
			_, err = s.Write(reply(try, req))
		}
		if err == nil && serve != nil {
			serve(s)
		}
		if serve == nil {
			// Until the initiator has read the reply, a close with unread
			// bytes would take it away.
			io.Copy(io.Discard, s)
		}
		s.Close()
	}
}

// against dials a responder played by the test.
func (s *side) against(reply func(try int, req mpaFrame) []byte, serve func(*net.TCPConn)) error {
	l, at := bareListener(s.t.(*testing.T))
	done := make(chan struct{})
	go runResponder(l, reply, serve, done)
	s.t.Cleanup(func() {
		if s.conn != nil {
			s.conn.Close()
		}
		l.Close()
		<-done
	})
	o := options(nil)
	if s.readsIn != 0 {
		o.ReadsIn = s.readsIn
	}
	c, err := s.dev.Dial(testContext(s.t), at, o)
	if err == nil {
		s.conn = c.(*conn)
	}
	return err
}

func TestInitiator(t *testing.T) {
	ok := mpaFrame{reply: true, revision: 2, enhanced: true, ird: 3, ord: 5, private: []byte("hi")}
	with := func(change func(*mpaFrame)) func(int, mpaFrame) []byte {
		f := ok
		change(&f)
		return func(int, mpaFrame) []byte { return appendMPA(nil, &f) }
	}
	t.Run("good", func(t *testing.T) {
		s := newSide(t, Config{}, 4096)
		var req mpaFrame
		err := s.against(func(_ int, r mpaFrame) []byte {
			req = r
			return appendMPA(nil, &ok)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !req.enhanced || req.revision != 2 || req.ird != 16 || req.ord != 16 || req.crc || req.markers || req.peerToPeer {
			t.Errorf("request %+v", req)
		}
		if s.conn.ReadsOut() != 3 || s.conn.crc || string(s.conn.PrivateData()) != "hi" {
			t.Errorf("negotiated %d reads, CRC %v, private data %q", s.conn.ReadsOut(), s.conn.crc, s.conn.PrivateData())
		}
	})
	t.Run("peer turns CRC on", func(t *testing.T) {
		s := newSide(t, Config{}, 4096)
		if err := s.against(with(func(f *mpaFrame) { f.crc = true }), nil); err != nil || !s.conn.crc {
			t.Errorf("%v", err)
		}
	})
	t.Run("peer turns CRC down", func(t *testing.T) {
		s := newSide(t, Config{CRC: true}, 4096)
		if err := s.against(with(func(*mpaFrame) {}), nil); err != nil || !s.conn.crc {
			t.Errorf("%v", err)
		}
	})
	t.Run("revision 1 only", func(t *testing.T) {
		s := newSide(t, Config{}, 4096)
		err := s.against(func(try int, r mpaFrame) []byte {
			return appendMPA(nil, &mpaFrame{reply: true, revision: 1, reject: r.revision != 1})
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.conn.ReadsOut() != 16 {
			t.Errorf("negotiated %d reads", s.conn.ReadsOut())
		}
	})
	t.Run("rejected", func(t *testing.T) {
		s := newSide(t, Config{}, 4096)
		err := s.against(with(func(f *mpaFrame) { f.reject = true }), nil)
		var re *verbs.RejectError
		if !errors.As(err, &re) || string(re.Private) != "hi" {
			t.Errorf("%v", err)
		}
	})
	for name, reply := range map[string]func(int, mpaFrame) []byte{
		"markers":          with(func(f *mpaFrame) { f.markers = true }),
		"too many reads":   with(func(f *mpaFrame) { f.ord = 17 }),
		"revision 1":       with(func(f *mpaFrame) { f.revision, f.enhanced = 1, false }),
		"not enhanced":     with(func(f *mpaFrame) { f.enhanced = false }),
		"a request":        with(func(f *mpaFrame) { f.reply = false }),
		"another protocol": func(int, mpaFrame) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSide(t, Config{}, 4096)
			err := s.against(reply, nil)
			var ce *verbs.ConnError
			if !errors.As(err, &ce) {
				t.Errorf("%v (%T)", err, err)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		s := newSide(t, Config{SetupTimeout: time.Millisecond}, 4096)
		err := s.against(func(int, mpaFrame) []byte { return nil }, nil)
		var ce *verbs.ConnError
		if !errors.As(err, &ce) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v (%T)", err, err)
		}
	})
}

// ask sends req to a listener and returns the reply.
func ask(t *testing.T, at netip.AddrPort, req []byte) (net.Conn, mpaFrame, error) {
	t.Helper()
	s, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Write(req); err != nil {
		t.Fatal(err)
	}
	f, err := readMPA(s, true)
	return s, f, err
}

// runAcceptAll accepts what comes, and closes it when the listener ends.
func runAcceptAll(ctx context.Context, l verbs.Listener, done chan<- struct{}) {
	defer close(done)
	for {
		r, err := l.Accept(ctx)
		if err != nil {
			return
		}
		if c, err := r.Accept(ctx, options(nil)); err == nil {
			defer c.Close()
		}
	}
}

func TestResponder(t *testing.T) {
	s := newSide(t, Config{}, 4096)
	l, err := s.dev.Listen(anyPort, verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go runAcceptAll(testContext(t), l, done)
	defer func() {
		l.Close()
		<-done
	}()
	for name, x := range map[string]struct{ req, rep mpaFrame }{
		"revision 1": {mpaFrame{revision: 1}, mpaFrame{revision: 1}},
		"revision 2 without depths": {
			mpaFrame{revision: 2}, mpaFrame{revision: 2}},
		"depths": {
			mpaFrame{revision: 2, enhanced: true, ird: 5, ord: 200},
			mpaFrame{revision: 2, enhanced: true, ird: 16, ord: 5}},
		"depths left open": {
			mpaFrame{revision: 2, enhanced: true, ird: depthAny, ord: depthAny},
			mpaFrame{revision: 2, enhanced: true, ird: 16, ord: 16}},
		"CRC": {mpaFrame{revision: 1, crc: true}, mpaFrame{revision: 1, crc: true}},
		"peer to peer": {
			mpaFrame{revision: 2, enhanced: true, ird: 1, ord: 1, peerToPeer: true, rtrSend: true, rtrWrite: true, rtrRead: true},
			mpaFrame{revision: 2, enhanced: true, ird: 1, ord: 1, peerToPeer: true, rtrWrite: true}},
		"peer to peer by read": {
			mpaFrame{revision: 2, enhanced: true, ird: 1, ord: 1, peerToPeer: true, rtrRead: true},
			mpaFrame{revision: 2, enhanced: true, ird: 1, ord: 1, peerToPeer: true, rtrRead: true}},
		"peer to peer by read, without reads": {
			mpaFrame{revision: 2, enhanced: true, ird: 1, peerToPeer: true, rtrRead: true},
			mpaFrame{revision: 2, enhanced: true, ird: 1, ord: 1, peerToPeer: true, rtrRead: true}},
		"markers": {
			mpaFrame{revision: 1, markers: true}, mpaFrame{revision: 1, reject: true}},
	} {
		x.rep.reply = true
		_, got, err := ask(t, l.Addr(), appendMPA(nil, &x.req))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a, b := string(appendMPA(nil, &got)), string(appendMPA(nil, &x.rep)); a != b {
			t.Errorf("%s: reply %+v, want %+v", name, got, x.rep)
		}
	}
	for name, req := range map[string][]byte{
		"revision 0":     appendMPA(nil, &mpaFrame{}),
		"revision 3":     appendMPA(nil, &mpaFrame{revision: 3}),
		"a reply":        appendMPA(nil, &mpaFrame{reply: true, revision: 1}),
		"another client": append([]byte("GET / HTTP/1.1\r\nHost: example\r\n\r\n"), 0),
		"long private":   append([]byte(mpaRequestKey), 0, 1, 0xff, 0xff),
	} {
		if _, got, err := ask(t, l.Addr(), req); err == nil {
			t.Errorf("%s: answered with %+v", name, got)
		}
	}
}

// TestSlowRequests: peers that connect and send nothing are dropped, and do not
// keep others out for good.
func TestSlowRequests(t *testing.T) {
	s := newSide(t, Config{SetupTimeout: 10 * time.Millisecond}, 4096)
	l, err := s.dev.Listen(anyPort, verbs.ListenOptions{Backlog: 1})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go runAcceptAll(testContext(t), l, done)
	defer func() {
		l.Close()
		<-done
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("peer without a request was answered")
		}
	}
	// On a busy machine a peer that sends its request at once may be too slow, too.
	ctx := testContext(t)
	for {
		_, _, err := ask(t, l.Addr(), appendMPA(nil, &mpaFrame{revision: 1}))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestSilentServerIsProbed plays a server that misses the first segment after its
// reply, as stock siw may: it reads that segment when another one comes.
func TestSilentServerIsProbed(t *testing.T) {
	s := newSide(t, Config{}, 4096)
	got := make(chan []byte, 1)
	err := s.against(func(_ int, r mpaFrame) []byte {
		return appendMPA(nil, &mpaFrame{reply: true, revision: 2, enhanced: true, ird: 1, ord: 1})
	}, func(p *net.TCPConn) {
		send := fpdu(header{last: true, op: opSend, msn: 1}, []byte("call"))
		probe := fpdu(header{tagged: true, last: true, op: opWrite}, nil)
		b := make([]byte, len(send)+len(probe))
		if _, err := io.ReadFull(p, b); err != nil {
			t.Errorf("no second segment: %v", err)
		}
		got <- b
		p.Write(fpdu(header{last: true, op: opSend, msn: 1}, []byte("reply")))
		io.Copy(io.Discard, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.PostRecv([]verbs.RecvWR{{Buf: s.arena.Seg(0, 100)}}); err != nil {
		t.Fatal(err)
	}
	copy(s.arena.Bytes()[200:], "call")
	s.post(verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{s.arena.Seg(200, 4)}})
	if wc := s.next(); wc.Len != 5 || !s.conn.heard.Load() {
		t.Errorf("received %+v", wc)
	}
	b := <-got
	h, n, err := parseHeader(b)
	if err != nil || h.op != opSend {
		t.Fatalf("first FPDU %+v, %v", h, err)
	}
	b = b[n+h.payload()+h.trailer():]
	if h, _, err := parseHeader(b); err != nil || h.op != opWrite || !h.last || h.payload() != 0 || h.stag != 0 {
		t.Errorf("second FPDU %+v, %v", h, err)
	}
}

// TestGivenUpIsNotSentLater: the close of a connection that was dialed is a reset,
// so that the system does not go on sending what was given up. An orderly end
// would show here as the end of the stream.
func TestGivenUpIsNotSentLater(t *testing.T) {
	s := newSide(t, Config{}, 4096)
	ended := make(chan error, 1)
	err := s.against(func(_ int, req mpaFrame) []byte {
		return appendMPA(nil, &mpaFrame{reply: true, revision: req.revision, enhanced: req.enhanced, ird: 8, ord: 4})
	}, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.conn.Close()
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the responder's connection ended with %v, want a reset", err)
	}
}
