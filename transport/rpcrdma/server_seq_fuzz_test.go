package rpcrdma

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// FuzzServerSequence plays a client of either version over many messages: calls of
// all kinds, with chunks good and bad, RDMA_DONE, errors, messages about
// properties, replies to backward calls that are outstanding or not, and plain
// garbage. Whatever it sends, the server ends the
// connection or goes on; in the end all its memory is back, and what it sent
// could be read.
func FuzzServerSequence(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 1, 2, 0, 3, 0, 4, 0, 1})
	f.Add([]byte{1, 0, 2, 0, 0, 2, 1, 3, 0, 3, 1, 5, 5, 4, 0, 1, 4, 1, 1})
	f.Add([]byte{3, 1, 6, 0, 2, 9, 1, 7, 5, 0, 0, 0, 1, 0, 0, 1, 2, 3, 0})
	f.Add([]byte{2, 0, 2, 200, 3, 0, 2, 201, 3, 0, 2, 202, 3, 0, 2, 203, 3, 0, 2, 204, 3, 3, 0, 0, 1})
	f.Add([]byte{6, 1, 0, 0, 0, 0, 1, 0, 2, 7, 16, 2, 1, 0, 0, 6, 1, 0, 4, 2, 9, 0, 4, 1, 9, 0, 4, 0})
	f.Add([]byte{7, 1, 0, 0, 0, 0, 1, 0, 2, 7, 64, 2, 1, 0, 7, 16, 2, 1, 0, 6, 0, 0, 4, 1, 90})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &script{input[:min(len(input), 300)]}
		mode := s.byte()
		dev := &listenDevice{reqs: make(chan verbs.Request, 1)}
		conn := &scriptConn{}
		srv, err := NewServer(dev, seqProgram{back: make(chan transport.Backchannel, 1)}, ServerConfig{
			InlineIn: 1024, InlineOut: 1024, Credits: 4, Memory: 4 << 20, ConnMemory: 2 << 20, MaxPayload: 64 << 10,
			ReadReplies: mode&1 == 1, Backward: int(mode >> 1 & 1 * 2), StallTimeout: time.Hour, DoneTimeout: time.Hour, IdleTimeout: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var back sync.WaitGroup
		served := make(chan error, 1)
		runServe := func() { served <- srv.Serve(ctx, dev) }
		go runServe()
		dev.reqs <- scriptRequest{conn: conn}
		for conn.receives() == 0 {
			runtime.Gosched()
		}
		p := &serverScript{conn: conn, ctx: ctx, back: &back, program: srv.handler.(seqProgram), version: Version1 + uint32(mode>>2&1)}
		for len(s.b) > 0 && !p.over() {
			p.step(s)
			runtime.Gosched()
		}
		for _, stop := range p.stops {
			stop()
		}
		back.Wait()
		conn.mu.Lock()
		if n := len(conn.bound); n > 0 && mode&1 == 0 {
			t.Errorf("%d keys are valid after all backward calls", n)
		}
		conn.mu.Unlock()
		cancel()
		<-served
		if st := srv.Stats(); st.Memory.Used != 0 || st.Memory.Leases != 0 || st.Conns != 0 {
			t.Errorf("left over: %+v", st)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}

// listenDevice is scriptDevice for a server; it is its own listener.
type listenDevice struct {
	scriptDevice
	verbs.Listener
	reqs       chan verbs.Request
	regionKeys bool
}

func (d *listenDevice) Caps() verbs.Caps {
	caps := d.scriptDevice.Caps()
	if d.regionKeys {
		caps.RegionKeys, caps.RemoteInvalidate = true, false
	}
	return caps
}

func (d *listenDevice) Close() error { return nil }

func (d *listenDevice) Accept(ctx context.Context) (verbs.Request, error) {
	select {
	case r := <-d.reqs:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type scriptRequest struct {
	conn *scriptConn
	// over, when not nil, makes what stands before the connection.
	over func(serverSide) verbs.Conn
}

func (scriptRequest) RemoteAddr() netip.AddrPort { return sinkRequest{}.RemoteAddr() }
func (scriptRequest) PrivateData() []byte        { return peerSizes(1024) }
func (scriptRequest) Reject([]byte) error        { return nil }

func (r scriptRequest) Accept(_ context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	r.conn.ready = sync.NewCond(&r.conn.mu)
	r.conn.bound = map[uint32]bool{}
	err := o.Prepare(r.conn)
	if r.over != nil {
		return r.over(serverSide{r.conn}), err
	}
	return serverSide{r.conn}, err
}

// serverSide is a scriptConn as a server sees it: Wait ends with its context.
type serverSide struct{ *scriptConn }

func (c serverSide) PostAndReap(wrs []verbs.SendWR, _ []verbs.Completion) (posted, reaped int, err error) {
	posted, err = c.PostSend(wrs)
	return posted, 0, err
}

func (c serverSide) Wait(ctx context.Context, wc []verbs.Completion) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	return c.scriptConn.Wait(ctx, wc)
}

func (c *scriptConn) receives() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.recvs)
}

// seqProgram answers with as many payloads and words as it is told, and lends the
// script a backchannel.
type seqProgram struct{ back chan transport.Backchannel }

func (p seqProgram) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	select {
	case p.back <- q.Back:
	default:
	}
	return fuzzProgram{}.Serve(ctx, q)
}

// serverScript is one run of FuzzServerSequence.
type serverScript struct {
	conn    *scriptConn
	ctx     context.Context
	program seqProgram
	back    *sync.WaitGroup
	channel transport.Backchannel
	version uint32
	stops   []context.CancelFunc // of backward calls
}

func (p *serverScript) over() bool {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	return p.conn.closed
}

func (p *serverScript) step(s *script) {
	xid := uint32(s.byte() % 8)
	switch s.byte() % (6 + byte(2*p.version-1)) {
	case 0: // a call, its reply as long as it says
		p.call(s, xid, wire.Lists{})
	case 1: // one with chunks
		var l wire.Lists
		for range s.byte() % 4 {
			l.Write = append(l.Write, chunkOf(uint32(s.byte())*100, uint32(s.byte())))
		}
		if s.byte()&1 == 1 {
			l.Reply = chunkOf(uint32(s.byte())*300, 77)
		}
		if s.byte()&1 == 1 {
			l.Read = []wire.ReadSegment{rseg(uint32(s.byte()), uint32(s.byte())*50)}
		}
		p.call(s, xid, l)
	case 2: // a call whose reply fits nowhere
		h := msgHeader(xid, wire.Lists{})
		h.Version = p.version
		p.conn.deliver(append(encodeHeader(&h), rpcCall(xid, 1, 0, 4000, uint32(s.byte())%4, 3)...), 0)
	case 3:
		p.conn.deliver(xdrWords(xid, 1, 1, uint32(wire.ProcDone)), 0)
	case 4: // an answer to a backward call, or to none
		p.answer(s, xid)
	case 5: // garbage
		b := make([]byte, s.byte()%64)
		for i := range b {
			b[i] = s.byte()
		}
		p.conn.deliver(b, 0)
	case 6: // the server calls back
		select {
		case b := <-p.program.back:
			p.channel = b
		default:
		}
		if b := p.channel; b != nil {
			c := pingCall(nil)
			if how := s.byte(); how&1 == 1 {
				c.Args, c.ReplyMax = longArgs(int(how)*8), int(how)*40
			}
			ctx, cancel := context.WithCancel(p.ctx)
			p.stops = append(p.stops, cancel)
			p.back.Go(func() { _ = b.Call(ctx, c) })
		}
	case 7:
		h := Header{XID: xid, Version: Version2, Credits: 9, Proc: wire.ProcOptional + wire.Proc(s.byte()%5), V2: s.props()}
		p.conn.deliver(encodeHeader(&h), 0)
	case 8:
		if n := len(p.stops); n > 0 {
			p.stops[int(xid)%n]()
		}
	}
}

func (p *serverScript) answer(s *script, xid uint32) {
	h := Header{XID: xid, Version: p.version, Credits: uint32(s.byte()), Proc: wire.ProcError, Err: wire.ErrChunk, V2: V2{Direction: wire.DirReply}}
	var key uint32
	if q := p.conn.call(s); q != nil {
		h.XID, key = q.XID, q.InvHandle
		h.Lists.Reply = append(h.Lists.Reply, q.Lists.Reply...)
	}
	how := s.byte()
	h.Lists.Reply.Fill(int(how) * 10)
	if how&1 == 1 {
		key = 0
	}
	var body []byte
	switch how % 4 {
	case 0, 1:
		h.Proc, body = wire.ProcMsg, rpcAccepted(h.XID, 5)
	case 2:
		h.Proc = wire.ProcNoMsg
	}
	p.conn.deliver(append(encodeHeader(&h), body...), key)
}

func (p *serverScript) call(s *script, xid uint32, l wire.Lists) {
	h := msgHeader(xid, l)
	h.Version, h.Credits = p.version, uint32(s.byte())
	if s.byte() == 1 && p.version == Version1 {
		h.Proc, h.Align, h.Threshold = wire.ProcMsgP, 8, 8
	}
	args := rpcCall(xid, 1, 0, uint32(s.byte())*20, uint32(s.byte())%5, uint32(s.byte()))
	p.conn.deliver(append(encodeHeader(&h), args...), 0)
}
