package rpcrdma

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// scriptDevice and scriptConn stand in for a provider under a link: what a
// script delivers comes in, what the link posts is carried out at once, and
// the windows know whether the peer could reach anything by them.
type scriptDevice struct {
	verbs.Device
	conn *scriptConn
}

func (d *scriptDevice) Caps() verbs.Caps {
	return verbs.Caps{Provider: "script", MaxSGE: 4, MaxQueue: 512, MaxMessage: 1 << 20, MaxPrivateData: 64, MaxReadDepth: 4, RemoteInvalidate: true}
}

func (d *scriptDevice) Register(*mem.Arena) (verbs.MemoryRegion, error) { return sinkRegion{}, nil }

func (d *scriptDevice) Dial(_ context.Context, _ netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	d.conn.ready = sync.NewCond(&d.conn.mu)
	d.conn.bound = map[uint32]bool{}
	return d.conn, o.Prepare(d.conn)
}

// overScript is a device whose connection stands before that of the script.
type overScript struct {
	*scriptDevice
	conn verbs.Conn
}

func (d overScript) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	_, err := d.scriptDevice.Dial(ctx, to, o)
	return d.conn, err
}

// dialScript makes the first link of a dialer that has size bytes of memory.
func dialScript(t *testing.T, cfg DialerConfig, size int) (*dialer, *link, *mem.Arena) {
	t.Helper()
	a, err := mem.NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDialer(cfg).(*dialer)
	if err := d.Register(a); err != nil {
		t.Fatal(err)
	}
	l, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d, l.(*link), a
}

type scriptConn struct {
	verbs.Conn

	mu     sync.Mutex
	ready  *sync.Cond
	recvs  []verbs.RecvWR
	done   []verbs.Completion
	sent   []Header // calls, in order
	bound  map[uint32]bool
	keys   uint32
	closed bool
	// windows, unless it is 0, is how many there are, and made how many of them
	// have been made.
	windows, made int
}

var errNoWindow = errors.New("no memory window")

type scriptWindow struct {
	c   *scriptConn
	key uint32
}

func (w *scriptWindow) Next(mem.Seg) uint32 {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.keys++
	w.key = w.c.keys
	return w.key
}

func (w *scriptWindow) Addr(s mem.Seg) uint64 { return uint64(s.Off) }

func (w *scriptWindow) Free() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	delete(w.c.bound, w.key)
}

func (c *scriptConn) NewWindow() (verbs.Window, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made++; c.windows > 0 && c.made > c.windows {
		return nil, errNoWindow
	}
	return &scriptWindow{c: c}, nil
}

func (c *scriptConn) PrivateData() []byte        { return peerSizes(1024) }
func (c *scriptConn) ReadsOut() int              { return 4 }
func (c *scriptConn) RemoteAddr() netip.AddrPort { return sinkRequest{}.RemoteAddr() }

func (c *scriptConn) PostRecv(wr []verbs.RecvWR) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, verbs.ErrClosed
	}
	c.recvs = append(c.recvs, wr...)
	return len(wr), nil
}

func (c *scriptConn) PostSend(wrs []verbs.SendWR) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, verbs.ErrClosed
	}
	for _, wr := range wrs {
		switch wr.Op {
		case verbs.OpBind:
			c.bound[wr.Window.(*scriptWindow).key] = true
		case verbs.OpLocalInvalidate:
			delete(c.bound, wr.RKey)
		case verbs.OpRead:
			clear(wr.Local[0].Bytes())
		case verbs.OpSend:
			b := make([]byte, wr.Local.Len())
			wr.Local.CopyOut(0, b)
			var h Header
			if n, err := ParseHeader(b, &h); err == nil && h.Proc != wire.ProcDone && !reverseReply(&h, b[n:]) {
				c.sent = append(c.sent, h)
			}
		}
		if wr.Signaled || wr.Op == verbs.OpRead {
			c.done = append(c.done, verbs.Completion{ID: wr.ID, Op: wr.Op})
		}
	}
	c.ready.Broadcast()
	return len(wrs), nil
}

// reverseReply tells what is sent that is not a call.
func reverseReply(h *Header, body []byte) bool {
	if h.Version == Version2 {
		return h.Proc != wire.ProcMsg && h.Proc != wire.ProcNoMsg || h.Direction == wire.DirReply
	}
	return h.Proc == wire.ProcError || h.Proc == wire.ProcMsg && len(body) >= 8 && beUint32(body[4:]) == 1
}

func (c *scriptConn) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ready.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.done) == 0 && !c.closed && ctx.Err() == nil {
		c.ready.Wait()
	}
	switch {
	case c.closed:
		return 0, verbs.ErrClosed
	case len(c.done) == 0:
		return 0, ctx.Err()
	}
	n := copy(wc, c.done)
	c.done = append(c.done[:0], c.done[n:]...)
	return n, nil
}

func (c *scriptConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	clear(c.bound)
	c.ready.Broadcast()
	return nil
}

// deliver is a message from the peer; without a receive it costs the connection.
func (c *scriptConn) deliver(b []byte, invalidate uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recvs) == 0 {
		c.closed = true
		clear(c.bound)
	}
	if !c.closed {
		r := c.recvs[0]
		c.recvs = c.recvs[1:]
		w := verbs.Completion{ID: r.ID, Op: verbs.OpRecv, Len: copy(r.Buf.Bytes(), b)}
		if c.bound[invalidate] {
			delete(c.bound, invalidate)
			w.Invalidated, w.InvalidatedKey = true, invalidate
		}
		c.done = append(c.done, w)
	}
	c.ready.Broadcast()
}

// script takes numbers from fuzz input; at its end they are zero.
type script struct{ b []byte }

func (s *script) byte() (v byte) {
	if len(s.b) > 0 {
		v, s.b = s.b[0], s.b[1:]
	}
	return v
}

func (s *script) word() uint32 {
	return uint32(s.byte())<<24 | uint32(s.byte())<<16 | uint32(s.byte())<<8 | uint32(s.byte())
}

// FuzzLink plays a peer of either version that answers calls well, badly, late,
// twice and not at all, refuses them, announces and asks for properties, calls back,
// and lets calls be given up: whatever it does, calls end with
// one of the errors there are, and when they have, nothing of theirs can be
// reached, and all buffers are back.
func FuzzLink(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 1, 1, 0, 0, 2, 1, 0, 0, 3, 1, 0})
	f.Add([]byte{0, 1, 4, 0, 1, 0, 0, 1, 6, 0, 5, 0, 28, 7})
	f.Add([]byte{0, 0, 2, 0, 4, 2, 0, 1, 2, 0, 0, 9, 3, 3, 1, 2, 3, 0, 2, 8, 1, 6})
	f.Add([]byte{0, 1, 6, 0, 1, 0, 0, 6, 0, 2, 200, 0, 1, 4, 0, 6, 0, 1, 5, 1})
	f.Add([]byte{2, 0, 0, 1, 0, 5, 8, 0, 16, 1, 2, 0, 2, 9, 1, 5, 1, 9, 1, 4, 1, 1, 1, 6, 0, 3, 9, 2, 8, 0, 40, 1, 2, 255})
	f.Add([]byte{2, 0, 0, 10, 0, 0, 0, 1, 0, 6, 0, 0, 1, 1, 0, 6})
	f.Add([]byte{2, 0, 0, 1, 0, 6, 8, 0, 64, 1, 2, 11, 0, 2, 3, 40, 11, 1, 1, 9, 8, 1, 8, 1, 8, 2, 80, 1})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &script{input[:min(len(input), 300)]}
		conn := &scriptConn{}
		dev := &scriptDevice{conn: conn}
		mode, kinds := s.byte(), byte(8)
		if mode&2 != 0 {
			kinds = 12
		}
		d, l, a := dialScript(t, DialerConfig{
			Device: dev, Credits: 4, InlineSend: 1024, InlineRecv: 1024, MaxPayload: 64 << 10, LongBytes: 256 << 10,
			ReadReplies: mode&1 == 1, TryVersion2: mode&2 != 0, Callbacks: newTestProgram(), CallbackCredits: 2, StallLimit: time.Minute,
		}, 64<<10)
		p := &linkScript{t: t, l: l, conn: conn, a: a, kinds: kinds}
		for len(s.b) > 0 {
			p.step(s)
		}
		for _, stop := range p.stops {
			stop()
		}
		p.calls.Wait()
		if l.Err() == nil {
			conn.mu.Lock()
			if len(conn.bound) != 0 {
				t.Errorf("%d keys are valid after all calls", len(conn.bound))
			}
			conn.mu.Unlock()
		}
		if err := errors.Join(l.Close(), d.Close(), a.Close()); err != nil {
			t.Error(err)
		}
		if d.long.Stats().Leases != 0 || d.stats.Granted.Load() != 0 {
			t.Errorf("%d long buffers, %d credits left", d.long.Stats().Leases, d.stats.Granted.Load())
		}
	})
}

// linkScript is one run of FuzzLink.
type linkScript struct {
	t     *testing.T
	l     *link
	conn  *scriptConn
	a     *mem.Arena
	kinds byte // of steps
	xid   uint32
	stops []context.CancelFunc
	calls sync.WaitGroup
	ended sync.Map // XIDs of calls that have returned
}

func (p *linkScript) step(s *script) {
	switch s.byte() % p.kinds {
	case 0:
		p.start(s.byte())
	case 1, 2:
		p.answer(s, false)
	case 3:
		n := int(s.byte()) % 64
		b := make([]byte, n)
		for i := range b {
			b[i] = s.byte()
		}
		p.conn.deliver(b, 0)
	case 4:
		if n := len(p.stops); n > 0 {
			p.stops[int(s.byte())%n]()
		}
	case 5:
		h := Header{XID: s.word(), Version: 1 + uint32(p.kinds/12), Credits: 1, Proc: wire.ProcMsg}
		if s.byte()&1 == 1 {
			h.Lists.Write = []wire.Chunk{chunkOf(9)}
		}
		p.conn.deliver(append(encodeHeader(&h), rpcCall(h.XID, uint32(s.byte())%4)...), 0)
	case 6:
		p.answer(s, true)
	case 7:
		p.conn.deliver(xdrWords(s.word(), 1, uint32(s.byte()), uint32(s.byte())%6, uint32(s.byte())%4, 1, 1), 0)
	case 8:
		h := Header{XID: s.word() % 32, Version: Version2, Credits: 9, Proc: wire.ProcConnProp + wire.Proc(s.byte()%4), V2: s.props()}
		p.conn.deliver(encodeHeader(&h), 0)
	case 9, 10:
		p.refuse(s)
	case 11:
		p.callBack2(s)
	}
	runtime.Gosched()
}

// props are what a message about properties holds.
func (s *script) props() V2 {
	v := V2{Props: propSet(prop(wire.PropReceiveSize, uint32(s.byte())<<8), prop(wire.PropBackward, uint32(s.byte())%4))}
	if how := s.byte(); how&1 == 1 {
		v.NoChange, v.Done = subset(int(how)%5), subset(int(how)%3)
	} else {
		v.Rejected = subset(int(how) % 3)
	}
	return v
}

// call is a call that is out, or was; nil when there is none.
func (c *scriptConn) call(s *script) *Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) == 0 {
		return nil
	}
	q := c.sent[int(s.byte())%len(c.sent)]
	return &q
}

// refuse answers a call, or something else, with an error.
func (p *linkScript) refuse(s *script) {
	h := Header{XID: 1<<31 ^ s.word()%4, Version: Version2, Credits: uint32(s.byte()), Proc: wire.ProcError, Low: 1}
	if q := p.conn.call(s); q != nil {
		h.XID = q.XID
	}
	h.Err, h.High = wire.ErrCode(s.byte())%12, uint32(s.byte())%3
	h.Fault = wire.Fault{Max: uint32(s.byte()) % 20, Index: uint32(s.byte()) % 3, Needed: uint32(s.byte()) << (s.byte() % 16)}
	p.conn.deliver(encodeHeader(&h), 0)
}

// callBack2 is a backward call of version 2, with all that it may have.
func (p *linkScript) callBack2(s *script) {
	h := Header{XID: s.word() % 32, Version: Version2, Credits: 1, Proc: wire.ProcMsg, V2: V2{Direction: wire.Direction(s.byte() % 3), InvHandle: 7}}
	body := rpcCall(h.XID, uint32(s.byte())%4, uint32(s.byte())*16, 2)
	if s.byte()&1 == 1 {
		h.Lists.Reply = chunkOf(uint32(s.byte())*20, uint32(s.byte()))
	}
	switch s.byte() % 4 {
	case 0:
		h.Lists.Read = []wire.ReadSegment{rseg(uint32(s.byte()), uint32(s.byte())*50)}
	case 1:
		h.Lists.Read = []wire.ReadSegment{rseg(0, uint32(s.byte())*50)}
		h.Proc, body = wire.ProcNoMsg, nil
	case 2:
		h.Proc, body = wire.ProcOptional, nil
	}
	p.conn.deliver(append(encodeHeader(&h), body...), 0)
}

// start makes a call, and waits until it is out, waits for a credit, or is over.
func (p *linkScript) start(kind byte) {
	if p.xid == 24 {
		return
	}
	p.xid++
	xid := p.xid
	ctx, cancel := context.WithCancel(context.Background())
	p.stops = append(p.stops, cancel)
	at := int(xid) * 2048
	n := 0
	c := [...]*transport.Call{
		pingCall(nil),
		readCall(mem.Vec{p.a.Seg(at, 1001), p.a.Seg(at+1010, 1000)}, &n),
		writeCall(mem.Vec{p.a.Seg(at, 2000)}),
		listCall(500),
	}[kind%4]
	p.calls.Go(func() {
		err := p.l.Exchange(ctx, xid, c)
		var te *transport.Error
		if err != nil && !errors.As(err, &te) {
			p.t.Errorf("call %d: %v", xid, err)
		}
		p.ended.Store(xid, true)
	})
	for !p.under(xid) {
		runtime.Gosched()
	}
}

// under reports whether call xid has got as far as it can by itself.
func (p *linkScript) under(xid uint32) bool {
	if _, over := p.ended.Load(xid); over {
		return true
	}
	if p.l.Credits().Usage().WaitingLive > 0 {
		return true
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	for _, h := range p.conn.sent {
		if h.XID == xid {
			return true
		}
	}
	return p.conn.closed
}

// answer replies to a call that is out, or was, as the script says.
func (p *linkScript) answer(s *script, reads bool) {
	q := p.conn.call(s)
	if q == nil {
		return
	}
	how := s.byte()
	h := Header{XID: q.XID, Version: q.Version, Credits: uint32(how) % 7, Proc: wire.ProcMsg, V2: V2{Direction: wire.DirReply}}
	for _, c := range q.Lists.Write {
		back := append(wire.Chunk{}, c...)
		back.Fill(int(how) * 16)
		h.Lists.Write = append(h.Lists.Write, back)
	}
	if r := q.Lists.Reply; r != nil {
		h.Lists.Reply = append(wire.Chunk{}, r...)
		h.Lists.Reply.Fill(int(how) * 10)
		if how&1 == 1 {
			h.Proc = wire.ProcNoMsg
		}
	}
	words := []uint32{uint32(how) * 16, 0, 1, 2}[:how%5%4]
	var body []byte
	if reads {
		pos := uint32(s.byte())
		h.Lists.Read = []wire.ReadSegment{{Position: pos, Segment: wire.Segment{Handle: 1, Length: uint32(s.byte()) * 11, Offset: 5}}}
		if pos == 0 {
			h.Proc = wire.ProcNoMsg
		}
	}
	if h.Proc == wire.ProcMsg {
		body = rpcAccepted(q.XID, words...)
	}
	var key uint32
	if ks := q.Lists.Keys(nil); len(ks) > 0 {
		key = ks[int(how)%len(ks)]
	}
	p.conn.deliver(append(encodeHeader(&h), body...), key)
}
