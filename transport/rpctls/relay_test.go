package rpctls_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// stream is what has passed a relay in one direction.
type stream struct {
	mu    sync.Mutex
	bytes []byte
	flip  int // of which byte a bit is flipped; negative: of none
	cut   int // after how many bytes the connection ends; negative: never
}

// relay is between a client and a server.
type relay struct {
	ln       net.Listener
	to       net.Addr
	up, down stream
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
}

// newRelay passes connections on to an address until the test ends.
func newRelay(t *testing.T, to net.Addr) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: to, up: stream{flip: -1, cut: -1}, down: stream{flip: -1, cut: -1}}
	r.wg.Add(1)
	go r.runAccept()
	t.Cleanup(func() {
		_ = ln.Close()
		r.mu.Lock()
		for _, c := range r.open {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) runAccept() {
	defer r.wg.Done()
	for {
		near, err := r.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial(r.to.Network(), r.to.String())
		if err != nil {
			_ = near.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, near, far)
		r.mu.Unlock()
		r.wg.Add(2)
		go r.runCopy(&r.up, far, near)
		go r.runCopy(&r.down, near, far)
	}
}

// runCopy passes one direction on.
func (r *relay) runCopy(s *stream, to, from net.Conn) {
	defer r.wg.Done()
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		b, over := s.pass(buf[:n])
		if _, werr := to.Write(b); err != nil || werr != nil || over {
			return
		}
	}
}

// pass notes b, and returns what of it goes on.
func (s *stream) pass(b []byte) (_ []byte, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	if at := s.flip - begin; s.flip >= 0 && at >= 0 && at < len(b) {
		b[at] ^= 1
	}
	if left := s.cut - begin; s.cut >= 0 && left <= len(b) {
		return b[:max(left, 0)], true
	}
	return b, false
}

func (s *stream) seen() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.bytes)
}

// copier answers each call with its data, of which it keeps nothing.
type copier struct{}

func (copier) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc == 0 {
		return transport.Success
	}
	d := q.Args.Data(payload)
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	s, err := q.Lease(len(d))
	if err != nil {
		return transport.SystemErr
	}
	copy(s.Bytes(), d)
	q.Reply.Payload(q.AddPayload(mem.Vec{s}))
	return transport.Success
}

// mirror sends text and takes it back into poisoned memory, by one call on a link.
func mirror(ctx context.Context, l transport.Link, a *mem.Arena, xid uint32, text []byte) error {
	send, recv := a.Seg(0, len(text)), a.Seg(len(text), len(text))
	copy(send.Bytes(), text)
	for i := range recv.Bytes() {
		recv.Bytes()[i] = 0xa5
	}
	err := l.Exchange(ctx, xid, &transport.Call{
		Prog: program + 1, Vers: version, Proc: 1, Send: []mem.Vec{{send}}, Recv: []mem.Vec{{recv}},
		Args:   func(w *xdr.Writer) { w.Payload(0) },
		Result: func(r *xdr.Reader) error { r.Payload(0); return r.End() },
	})
	if err == nil && !bytes.Equal(recv.Bytes(), text) {
		return errWrong
	}
	return err
}

var errWrong = errors.New("wrong data was delivered")

// known is a file's content that is easily found again.
func known(n int) []byte { return bytes.Repeat([]byte("PLAINTEXT OF A KNOWN FILE. "), n/27+1)[:n] }

func arena(t *testing.T, n int) *mem.Arena {
	t.Helper()
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// TestOnWire: of a connection, the probe and its answer alone are in clear text.
func TestOnWire(t *testing.T) {
	w := serve(t, copier{}, 16, true)
	plain, _ := listen(t, copier{}, tcp.ServerConfig{MaxPayload: payload})
	a, text := arena(t, 1<<20), known(300_000)
	pass := func(to net.Addr, c *rpctls.Client) (up, down []byte) {
		r := newRelay(t, to)
		cfg := tcp.Config{Addr: r.ln.Addr().(*net.TCPAddr).AddrPort()}
		if c != nil {
			cfg.Upgrade = c.Upgrade
		}
		d, err := tcp.NewDialer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for xid := range uint32(20) {
			if err := mirror(t.Context(), l, a, xid, text[:len(text)>>xid+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		return r.up.seen(), r.down.seen()
	}
	// That the relay would see it.
	for _, b := range [][]byte{first(pass(plain, nil)), second(pass(plain, nil))} {
		if !bytes.Contains(b, text[:27]) {
			t.Fatal("the file is not seen in clear text either")
		}
	}
	up, down := pass(w.addr, &w.client)
	for side, b := range map[string][]byte{"call": up, "reply": down} {
		if bytes.Contains(b, []byte("PLAINTEXT")) || bytes.Contains(b, []byte("KNOWN FILE")) {
			t.Errorf("%s: the file is seen", side)
		}
		skip := map[string]int{"call": 44, "reply": 36}[side]
		records(t, side, b[skip:])
	}
	if xid := up[4:8]; !bytes.Equal(up[:44], append([]byte{0x80, 0, 0, 40, xid[0], xid[1], xid[2], xid[3], 0, 0, 0, 0, 0, 0, 0, 2}, up[16:44]...)) ||
		!bytes.Equal(up[24:44], []byte{0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("the connection begins %x", up[:44])
	}
}

func first(a, _ []byte) []byte  { return a }
func second(_, b []byte) []byte { return b }

// records checks that b is records of TLS from end to end: handshake, change_cipher_spec and, but for the two hellos, encrypted ones.
func records(t *testing.T, side string, b []byte) {
	t.Helper()
	clear := 0
	for len(b) > 0 {
		if len(b) < 5 || b[1] != 3 || len(b) < 5+int(b[3])<<8+int(b[4]) {
			// The last record may have been cut by the end of the connection.
			if len(b) < 5 || b[1] != 3 || b[0] != 23 {
				t.Errorf("%s: no record of TLS: %x", side, b[:min(len(b), 16)])
			}
			return
		}
		switch b[0] {
		case 22:
			clear++
		case 20, 23:
		default:
			t.Errorf("%s: record of type %d in clear text", side, b[0])
		}
		b = b[5+int(b[3])<<8+int(b[4]):]
	}
	if clear != 1 {
		t.Errorf("%s: %d messages of the handshake in clear text", side, clear)
	}
}

// TestTampered: a bit that is flipped anywhere, or a cut anywhere, ends the connection or keeps it from being made. What
// calls return before that is right, and nothing wrong is delivered.
func TestTampered(t *testing.T) {
	w := serve(t, copier{}, 16, false)
	a, text := arena(t, 1<<18), known(60_000)
	const calls = 4
	run := func(set func(*relay)) (r *relay, dialed bool, good int, err error) {
		r = newRelay(t, w.addr)
		set(r)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		l, err := dial(ctx, r.ln.Addr(), &w.client)
		if err != nil {
			return r, false, 0, err
		}
		defer l.Close()
		for xid := range uint32(calls) {
			if err = mirror(ctx, l, a, xid, text); err != nil {
				select {
				case <-l.Done():
				case <-ctx.Done():
				}
				return r, true, good, errors.Join(err, ctx.Err())
			}
			good++
		}
		return r, true, good, nil
	}
	r, _, good, err := run(func(*relay) {})
	if err != nil || good != calls {
		t.Fatalf("%d calls, %v", good, err)
	}
	up, down := len(r.up.seen()), len(r.down.seen())
	for name, c := range map[string]struct {
		total int
		set   func(r *relay, at int)
	}{
		"calls flipped":   {up, func(r *relay, at int) { r.up.flip = at }},
		"replies flipped": {down, func(r *relay, at int) { r.down.flip = at }},
		"calls cut":       {up, func(r *relay, at int) { r.up.cut = at }},
		"replies cut":     {down, func(r *relay, at int) { r.down.cut = at }},
	} {
		t.Run(name, func(t *testing.T) {
			// The probe, the hellos, certificates, and then the data. What is said at the end of a connection is not needed.
			var at []int
			for i := 0; i < 3000; i += 61 {
				at = append(at, i)
			}
			for i := 3000; i < c.total-5000; i += c.total / 23 {
				at = append(at, i)
			}
			ended := 0
			for _, at := range at {
				_, dialed, good, err := run(func(r *relay) { c.set(r, at) })
				switch {
				case errors.Is(err, errWrong):
					t.Errorf("byte %d: %v", at, err)
				case errors.Is(err, context.DeadlineExceeded) && at >= 80:
					t.Errorf("byte %d: %d calls, then silence", at, good)
				case err != nil:
					ended++
				case at >= 44 && dialed:
					t.Errorf("byte %d of %d: nothing was noticed", at, c.total)
				}
			}
			if ended == 0 {
				t.Error("no connection has ended")
			}
		})
	}
}

// TestOpenSSL: OpenSSL as the server and as the client, behind a peer that speaks the probe for it.
func TestOpenSSL(t *testing.T) {
	t.Run("server", func(t *testing.T) { opensslServer(t) })
	t.Run("client", func(t *testing.T) { opensslClient(t) })
}
