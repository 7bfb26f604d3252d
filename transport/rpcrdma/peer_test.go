package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// patience bounds waits that are expected to end at once.
const patience = 20 * time.Second

// peer is the responder's end of one connection, played by a test's script.
type peer struct {
	conn  verbs.Conn
	arena *mem.Arena
	recvs []mem.Seg
	out   mem.Seg
	data  mem.Seg
	ready []verbs.Completion
}

// peerCall is a call as the peer received it.
type peerCall struct {
	Header
	body []byte
	// invalidated: it came by Send with Invalidate.
	invalidated bool
}

// errHungUp: the requester closed the connection.
var errHungUp = errors.New("requester hung up")

const (
	peerReceives = 64
	peerMessage  = 64 << 10
	peerData     = 4 << 20
)

// startPeer listens and runs script on each connection, until the test ends. A
// script that returns leaves its connection open; an error of it other than
// errHungUp fails the test.
func startPeer(t testing.TB, private []byte, script func(p *peer) error) netip.AddrPort {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	ln, err := dev.Listen(netip.MustParseAddrPort("127.0.0.1:0"), verbs.ListenOptions{Backlog: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	var mu sync.Mutex
	var open []verbs.Conn
	runAccept := func() {
		defer conns.Done()
		for {
			req, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			conns.Add(1)
			runConn := func() {
				defer conns.Done()
				p, done, err := acceptPeer(ctx, dev, req, private)
				if err != nil {
					if ctx.Err() == nil { // else the test was over before
						t.Errorf("peer: %v", err)
					}
					return
				}
				mu.Lock()
				open = append(open, p.conn)
				mu.Unlock()
				if err := script(p); err != nil && !errors.Is(err, errHungUp) {
					t.Errorf("script: %v", err)
				}
				<-ctx.Done()
				done()
			}
			go runConn()
		}
	}
	conns.Add(1)
	go runAccept()
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		conns.Wait()
		if err := dev.Close(); err != nil {
			t.Errorf("peer's device: %v", err)
		}
	})
	return ln.Addr()
}

func acceptPeer(ctx context.Context, dev verbs.Device, req verbs.Request, private []byte) (*peer, func(), error) {
	a, err := mem.NewArena(peerReceives*peerMessage + peerMessage + peerData)
	if err != nil {
		return nil, nil, err
	}
	r, err := dev.Register(a)
	if err != nil {
		return nil, nil, err
	}
	p := &peer{arena: a}
	for i := range peerReceives {
		p.recvs = append(p.recvs, a.Seg(i*peerMessage, peerMessage))
	}
	p.out = a.Seg(peerReceives*peerMessage, peerMessage)
	p.data = a.Seg(peerReceives*peerMessage+peerMessage, peerData)
	p.conn, err = req.Accept(ctx, verbs.ConnOptions{
		PrivateData: private, SendQueue: 64, RecvQueue: peerReceives, ReadsIn: 4, ReadsOut: 4,
		Prepare: func(qp verbs.QP) error {
			for i, s := range p.recvs {
				if _, err := qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), Buf: s}}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, r.Close(), a.Close())
	}
	return p, func() {
		_ = p.conn.Close()
		_ = r.Close()
		_ = a.Close()
	}, nil
}

// wait returns the next completion of op; others are kept.
func (p *peer) wait(op verbs.Op) (verbs.Completion, error) {
	for {
		for i, c := range p.ready {
			if c.Op == op {
				p.ready = append(p.ready[:i], p.ready[i+1:]...)
				return c, nil
			}
		}
		var wc [8]verbs.Completion
		n, err := p.conn.Wait(context.Background(), wc[:])
		if err != nil {
			return verbs.Completion{}, errHungUp
		}
		p.ready = append(p.ready, wc[:n]...)
	}
}

// call waits for the next call.
func (p *peer) call() (*peerCall, error) {
	c, err := p.wait(verbs.OpRecv)
	if err != nil {
		return nil, err
	}
	b := bytes.Clone(p.recvs[c.ID].Bytes()[:c.Len])
	if _, err := p.conn.PostRecv([]verbs.RecvWR{{ID: c.ID, Buf: p.recvs[c.ID]}}); err != nil {
		return nil, errHungUp
	}
	q := &peerCall{invalidated: c.Invalidated}
	n, err := ParseHeader(b, &q.Header)
	if err != nil {
		return nil, err
	}
	q.body = b[n:]
	return q, nil
}

func (p *peer) post(wr verbs.SendWR) error {
	wr.Signaled = true
	if _, err := p.conn.PostSend([]verbs.SendWR{wr}); err != nil {
		return errHungUp
	}
	_, err := p.wait(wr.Op)
	return err
}

// send sends b.
func (p *peer) send(b []byte) error {
	copy(p.out.Bytes(), b)
	return p.post(verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{p.out.Slice(0, len(b))}})
}

func (p *peer) sendInvalidate(b []byte, rkey uint32) error {
	copy(p.out.Bytes(), b)
	return p.post(verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: rkey, Local: mem.Vec{p.out.Slice(0, len(b))}})
}

// read fetches a segment.
func (p *peer) read(s wire.Segment) ([]byte, error) {
	local := p.data.Slice(0, int(s.Length))
	if err := p.post(verbs.SendWR{Op: verbs.OpRead, RKey: s.Handle, Addr: s.Offset, Local: mem.Vec{local}}); err != nil {
		return nil, err
	}
	return bytes.Clone(local.Bytes()), nil
}

// readAll fetches the segments of a read list one after the other.
func (p *peer) readAll(l []wire.ReadSegment) ([]byte, error) {
	var b []byte
	for _, s := range l {
		d, err := p.read(s.Segment)
		if err != nil {
			return nil, err
		}
		b = append(b, d...)
	}
	return b, nil
}

// write places data in a chunk, and returns the chunk as a reply has it.
func (p *peer) write(c wire.Chunk, data []byte) (wire.Chunk, error) {
	back := append(wire.Chunk{}, c...)
	for i := range back {
		n := min(len(data), int(back[i].Length))
		back[i].Length = uint32(n)
		if n == 0 {
			continue
		}
		local := p.data.Slice(0, n)
		copy(local.Bytes(), data[:n])
		data = data[n:]
		if err := p.post(verbs.SendWR{Op: verbs.OpWrite, RKey: c[i].Handle, Addr: c[i].Offset, Local: mem.Vec{local}}); err != nil {
			return nil, err
		}
	}
	return back, nil
}

// rpcAccepted is an RPC reply of success with the results given.
func rpcAccepted(xid uint32, results ...uint32) []byte {
	return xdrWords(append([]uint32{xid, 1, 0, 0, 0, 0}, results...)...)
}

// header encodes a reply's header that grants credits.
func (q *peerCall) header(proc wire.Proc, credits uint32, l wire.Lists) []byte {
	h := Header{XID: q.XID, Version: q.Version, Credits: credits, Proc: proc, Lists: l, V2: V2{Direction: wire.DirReply}}
	return encodeHeader(&h)
}

// inline is a whole reply without chunks, in which what was offered is unused.
func (q *peerCall) inline(results ...uint32) []byte {
	var l wire.Lists
	for _, c := range q.Lists.Write {
		back := append(wire.Chunk{}, c...)
		for i := range back {
			back[i].Length = 0
		}
		l.Write = append(l.Write, back)
	}
	return append(q.header(wire.ProcMsg, 32, l), rpcAccepted(q.XID, results...)...)
}

// answerAll answers every call with the results given.
func answerAll(results ...uint32) func(p *peer) error {
	return func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			if err := p.send(q.inline(results...)); err != nil {
				return err
			}
		}
	}
}

// rig is a requester connected to a peer.
type rig struct {
	*link
	d     *dialer
	arena *mem.Arena
	xid   uint32
}

// dialPeer dials; the end of the test checks that nothing is left over.
func dialPeer(t testing.TB, addr netip.AddrPort, change func(*DialerConfig)) *rig {
	t.Helper()
	cfg := DialerConfig{Device: iwarp.Open(iwarp.Config{}), Addr: addr, Credits: 16}
	if change != nil {
		change(&cfg)
	}
	d := NewDialer(cfg).(*dialer)
	a, err := mem.NewArena(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Register(a); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := d.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{link: l.(*link), d: d, arena: a, xid: 0x1000}
	t.Cleanup(func() {
		check := func(what string, err error) {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		check("link", r.Close())
		check("second close of the link", r.Close())
		if n := d.long.Stats().Leases; n != 0 {
			t.Errorf("%d long buffers not returned", n)
		}
		if n := d.stats.Granted.Load(); n != 0 {
			t.Errorf("%d credits in the statistics of dead links", n)
		}
		check("dialer", d.Close())
		check("device", cfg.Device.Close())
		check("arena", a.Close())
	})
	return r
}

// do makes a call under a fresh XID.
func (r *rig) do(ctx context.Context, c *transport.Call) error {
	r.xid++
	return r.Exchange(ctx, r.xid, c)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// pingCall is a call whose only result is one word, which goes to got.
func pingCall(got *uint32) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: 1, ReplyMax: 4, Result: func(r *xdr.Reader) error {
		v := r.Uint32()
		if got != nil {
			*got = v
		}
		return r.End()
	}}
}

// readCall is like NFS READ: it returns a payload into v.
func readCall(v mem.Vec, n *int) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: 6, ReplyMax: 8, Recv: []transport.Payload{v},
		Result: func(r *xdr.Reader) error {
			*n = r.Payload(0)
			return r.End()
		}}
}

// writeCall is like NFS WRITE: a word, a payload, and a word behind it.
func writeCall(v mem.Vec) *transport.Call {
	c := pingCall(nil)
	c.Proc, c.Send = 7, []transport.Payload{v}
	c.Args = func(w *xdr.Writer) {
		w.Uint32(0xaaaa)
		w.Payload(0)
		w.Uint32(0xbbbb)
	}
	return c
}

// wantFate checks the error of a call.
func wantFate(t *testing.T, err error, fate transport.Fate, target error) {
	t.Helper()
	var te *transport.Error
	if !errors.As(err, &te) || te.Fate != fate {
		t.Fatalf("got %v, want fate %v", err, fate)
	}
	if target != nil && !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

func testPattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func peerSizes(n int) []byte {
	return wire.PrivateData{SendSize: n, RecvSize: n}.Append(nil)
}

func beUint32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// longArgs are n words that count up from 0.
func longArgs(n int) func(w *xdr.Writer) {
	return func(w *xdr.Writer) {
		for i := range n {
			w.Uint32(uint32(i))
		}
	}
}
