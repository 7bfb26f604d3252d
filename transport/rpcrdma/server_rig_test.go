package rpcrdma

import (
	"context"
	"errors"
	"hash/crc32"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// The procedures of testProgram.
const (
	procNull = 0
	procSum  = 1 // opaque → its length and CRC
	procFill = 2 // n, k → k payloads of n bytes, a word after each
	procList = 3 // n → n words, none of them payload
	procHold = 4 // answers when released
	procSeen = 5 // the XID, and the peer and transport
	procLose = 6 // no reply
	procFail = 7 // encodes n words, and fails then
)

// testProgram is a transport.Handler.
type testProgram struct {
	holding chan struct{} // has a token for every procHold
	release chan struct{} // closed to let them go
}

func newTestProgram() *testProgram {
	return &testProgram{holding: make(chan struct{}, 1000), release: make(chan struct{})}
}

func (p *testProgram) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case procNull:
	case procSum:
		b := q.Args.Data(1 << 30)
		if q.Args.Uint32() != 0xbbbb || q.Args.End() != nil {
			return transport.GarbageArgs
		}
		q.Reply.Uint32(uint32(len(b)))
		q.Reply.Uint32(crc32.ChecksumIEEE(b))
	case procFill:
		n, k := int(q.Args.Uint32()), int(q.Args.Uint32())
		for i := range k {
			s, err := q.Lease(n)
			if err != nil {
				return transport.SystemErr
			}
			copy(s.Bytes(), testPattern(n))
			q.Reply.Payload(q.AddPayload(transport.Payload{s.Slice(0, n/2), s.Slice(n/2, n-n/2)}))
			q.Reply.Uint32(uint32(i))
		}
	case procList:
		for i := range q.Args.Uint32() {
			q.Reply.Uint32(i)
		}
	case procHold:
		p.holding <- struct{}{}
		select {
		case <-p.release:
		case <-ctx.Done():
		}
	case procSeen:
		q.Reply.Uint32(q.XID)
		q.Reply.String(q.Peer + " " + q.Transport)
	case procFail:
		for range q.Args.Uint32() {
			q.Reply.Uint32(1)
		}
		return transport.SystemErr
	case procLose:
		return transport.NoReply
	default:
		return transport.ProcUnavail
	}
	return transport.Success
}

// serverRig is a server on loopback.
type serverRig struct {
	*Server
	program *testProgram
	addr    netip.AddrPort
}

// startServer serves testProgram until the test ends, and then checks that
// nothing is left over.
func startServer(t testing.TB, cfg ServerConfig) *serverRig {
	t.Helper()
	p := newTestProgram()
	r := startServerWith(t, cfg, p)
	r.program = p
	return r
}

func startServerWith(t testing.TB, cfg ServerConfig, h transport.Handler) *serverRig {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	ln, err := dev.Listen(netip.MustParseAddrPort("127.0.0.1:0"), verbs.ListenOptions{Backlog: 8})
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		cfg.Log = testlog.New(t)
	}
	s, err := NewServer(dev, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	runServe := func() { served <- s.Serve(context.Background(), ln) }
	go runServe()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
		if err := <-served; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if st := s.Stats(); st.Memory.Used != 0 || st.Memory.Leases != 0 || st.Memory.Peak > st.Memory.Size || st.Conns != 0 {
			t.Errorf("left over: %+v", st)
		}
		if err := errors.Join(ln.Close(), dev.Close()); err != nil {
			t.Errorf("device: %v", err)
		}
		noServerGoroutine(t)
	})
	return &serverRig{Server: s, addr: ln.Addr()}
}

// noServerGoroutine fails the test when the server has left one running.
func noServerGoroutine(t testing.TB) {
	b := make([]byte, 1<<20)
	if s := string(b[:runtime.Stack(b, true)]); strings.Contains(s, "(*serverConn)") || strings.Contains(s, "(*Server).run") {
		t.Errorf("goroutines left:\n%s", s)
	}
}

// eventually waits for something that has no event of its own.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

// rawClient sends a responder whatever a test wants.
type rawClient struct {
	t     testing.TB
	conn  verbs.Conn
	recvs []mem.Seg
	out   mem.Seg
	data  mem.Seg // 4 MiB to be bound
	lost  error
	// keys that the peer has invalidated
	invalidated []uint32
}

// The raw client's sizes.
const (
	rawRecvs = 32
	rawMsg   = 64 << 10
	rawData  = 4 << 20
)

func dialRaw(t testing.TB, to netip.AddrPort, private []byte) *rawClient {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	a, err := mem.NewArena((rawRecvs+1)*rawMsg + rawData)
	if err != nil {
		t.Fatal(err)
	}
	region, err := dev.Register(a)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, out: a.Seg(rawRecvs*rawMsg, rawMsg), data: a.Seg((rawRecvs+1)*rawMsg, rawData)}
	var wr []verbs.RecvWR
	for i := range rawRecvs {
		c.recvs = append(c.recvs, a.Seg(i*rawMsg, rawMsg))
		wr = append(wr, verbs.RecvWR{ID: uint64(i), Buf: c.recvs[i]})
	}
	c.conn, err = dev.Dial(within(t, patience), to, verbs.ConnOptions{
		PrivateData: private, SendQueue: 512, RecvQueue: rawRecvs, ReadsIn: 8, ReadsOut: 1,
		Prepare: func(qp verbs.QP) error {
			_, err := qp.PostRecv(wr)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.conn.Close(), region.Close(), a.Close(), dev.Close()); err != nil {
			t.Errorf("raw client: %v", err)
		}
	})
	return c
}

// bind opens s to the peer and returns how to name it.
func (c *rawClient) bind(s mem.Seg, access verbs.Access) wire.Segment {
	c.t.Helper()
	w, err := c.conn.NewWindow()
	if err != nil {
		c.t.Fatal(err)
	}
	seg := wire.Segment{Handle: w.Next(s), Length: uint32(s.Len), Offset: w.Addr(s)}
	c.post(verbs.SendWR{Op: verbs.OpBind, Window: w, Access: access, Local: mem.Vec{s}})
	return seg
}

func (c *rawClient) post(wr verbs.SendWR) {
	c.t.Helper()
	if _, err := c.conn.PostSend([]verbs.SendWR{wr}); err != nil {
		c.lost = err
	}
}

// send sends a header and what follows it. It waits until the message is out.
func (c *rawClient) send(head, body []byte) {
	c.t.Helper()
	n := copy(c.out.Bytes(), head)
	n += copy(c.out.Bytes()[n:], body)
	c.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{c.out.Slice(0, n)}})
	c.wait(verbs.OpSend)
}

func (c *rawClient) call(h Header, body []byte) {
	c.t.Helper()
	c.send(encodeHeader(&h), body)
}

// wait returns the next completion of op, or false when the connection is lost.
// Receives that come in between are a fault of the test's.
func (c *rawClient) wait(op verbs.Op) (verbs.Completion, bool) {
	c.t.Helper()
	var wc [1]verbs.Completion
	for c.lost == nil {
		n, err := c.conn.Wait(within(c.t, patience), wc[:])
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.t.Fatal("nothing came")
			}
			c.lost = err
			break
		}
		if n == 1 && wc[0].Op == op {
			return wc[0], true
		}
	}
	return verbs.Completion{}, false
}

// reply waits for a message.
func (c *rawClient) reply() (h Header, body []byte) {
	c.t.Helper()
	w, ok := c.wait(verbs.OpRecv)
	if !ok {
		c.t.Fatalf("connection lost: %v", c.lost)
	}
	if w.Invalidated {
		c.invalidated = append(c.invalidated, w.InvalidatedKey)
	}
	b := append([]byte(nil), c.recvs[w.ID].Bytes()[:w.Len]...)
	if _, err := c.conn.PostRecv([]verbs.RecvWR{{ID: w.ID, Buf: c.recvs[w.ID]}}); err != nil {
		c.t.Fatal(err)
	}
	n, err := ParseHeader(b, &h)
	if err != nil {
		c.t.Fatal(err)
	}
	return h, b[n:]
}

// wantError waits for RDMA_ERROR.
func (c *rawClient) wantError(xid uint32, code wire.ErrCode) {
	c.t.Helper()
	h, body := c.reply()
	if h.Proc != wire.ProcError || h.Err != code || h.XID != xid || h.Credits == 0 || len(body) != 0 {
		c.t.Fatalf("got %+v and %d bytes, want error %d", h, len(body), code)
	}
	if code == wire.ErrVers && (h.Low != 1 || h.High != 1) {
		c.t.Fatalf("versions %d to %d", h.Low, h.High)
	}
}

// wantLost waits for the connection's end.
func (c *rawClient) wantLost() {
	c.t.Helper()
	if w, ok := c.wait(verbs.OpRecv); ok {
		c.t.Fatalf("connection lives: %+v", w)
	}
}

// ping checks that the connection works.
func (c *rawClient) ping(xid uint32) {
	c.t.Helper()
	c.call(msgHeader(xid, wire.Lists{}), rpcCall(xid, procNull))
	h, body := c.reply()
	if h.XID != xid || h.Proc != wire.ProcMsg || string(body) != string(rpcAccepted(xid)) {
		c.t.Fatalf("got %+v, %x", h, body)
	}
}

func msgHeader(xid uint32, l wire.Lists) Header {
	return Header{XID: xid, Version: Version1, Credits: 16, Proc: wire.ProcMsg, Lists: l}
}

// rpcCall is a call with AUTH_NONE and words as arguments.
func rpcCall(xid, proc uint32, args ...uint32) []byte {
	return xdrWords(append([]uint32{xid, 0, 2, 100003, 3, proc, 0, 0, 0, 0}, args...)...)
}

// sumCall is procSum's call for n bytes, reduced: without them.
func sumCall(xid uint32, n int) (b []byte, pos uint32) {
	return rpcCall(xid, procSum, uint32(n), 0xbbbb), 44
}

func sumReply(b []byte) []uint32 { return []uint32{uint32(len(b)), crc32.ChecksumIEEE(b)} }

// testXDR reads a reply's results.
func testXDR(b []byte) *xdr.Reader {
	r := new(xdr.Reader)
	r.Reset(b, nil)
	return r
}
