package requester

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// scriptConn is a connection that does what a script says, all on the goroutine of its requester's only caller: what is
// posted is done at once, and its completions and the script's messages come when the caller receives.
type scriptConn struct {
	t     testing.TB
	r     *Requester
	arena *mem.Arena
	bufs  []mem.Seg
	batch Batch
	msg   wire.Msg
	terms plan.Terms

	done, quiet chan struct{}
	err         error
	useless     error
	completions []verbs.Completion
	lent        int
	// free is a receive buffer that no slot has.
	free int
	// ops are the work requests posted, sent the Sends, in order. Each Send that is not the last of script is answered
	// by the next of it.
	ops    []verbs.Op
	sent   [][]byte
	script []answer
	// posts, unless it is nil, says how many of the requests posted are taken, and why not all.
	posts func(wrs []verbs.SendWR) (int, error)
	bound map[uint32]bool
	keys  uint32
}

// answer makes what the peer does when the caller waits for the reply to a call: a message, or nothing more, which ends
// the connection.
type answer func(c *scriptConn, q *wire.Msg) []byte

type scriptWindow struct {
	c   *scriptConn
	key uint32
}

func (w *scriptWindow) Next(mem.Seg) uint32 {
	w.c.keys++
	w.key = w.c.keys
	return w.key
}
func (w *scriptWindow) Addr(s mem.Seg) uint64 { return uint64(s.Off) }
func (w *scriptWindow) Free()                 { delete(w.c.bound, w.key) }

const (
	inline   = 4096
	bufSize  = 8192
	longSize = 64 << 10
)

// newScript makes a requester with so many credits whose connection does as script says. change may change its rules and
// the terms.
func newScript(t testing.TB, credits int, change func(*Rules, *plan.Terms)) *scriptConn {
	t.Helper()
	a, err := mem.NewArena(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &scriptConn{t: t, arena: a, done: make(chan struct{}), quiet: make(chan struct{}), bound: map[uint32]bool{},
		terms: plan.Terms{Version: wire.Version1, SendInline: inline, RecvInline: inline}}
	at := 2 << 20
	next := func(n int) mem.Seg {
		at += n
		return a.Seg(at-n, n)
	}
	var slots []Memory
	for i := range credits + 1 {
		c.bufs = append(c.bufs, next(bufSize))
		if i > 0 {
			slots = append(slots, Memory{Buffer: i, Header: next(HeaderLen), Call: next(inline), Scratch: next(ScratchLen)})
		}
	}
	rules := &Rules{
		Credits: credits, MaxSGE: 8, Invalidates: true, MaxPayload: 1 << 20, Resends: MaxResends,
		Count: &Counters{}, Receive: c.receive, Interrupt: func() {},
	}
	if change != nil {
		change(rules, &c.terms)
	}
	c.r = New(c, rules, slots)
	c.batch = c.r.NewBatch()
	return c
}

func (c *scriptConn) Post(_ context.Context, s *Sender, _ <-chan struct{}) (int, error) {
	n, err := len(s.WRs), error(nil)
	if c.err != nil {
		return 0, verbs.ErrClosed
	}
	if c.posts != nil {
		n, err = c.posts(s.WRs)
	}
	for _, wr := range s.WRs[:n] {
		c.ops = append(c.ops, wr.Op)
		switch wr.Op {
		case verbs.OpBind:
			c.bound[wr.Window.(*scriptWindow).key] = true
		case verbs.OpLocalInvalidate:
			if !c.bound[wr.RKey] {
				c.t.Errorf("key %d invalidated twice", wr.RKey)
			}
			delete(c.bound, wr.RKey)
		case verbs.OpSend:
			b := make([]byte, wr.Local.Len())
			wr.Local.CopyOut(0, b)
			c.sent = append(c.sent, b)
		}
		if wr.Signaled {
			c.completions = append(c.completions, verbs.Completion{ID: wr.ID, Op: wr.Op})
		}
	}
	return n, err
}

// receive is Rules.Receive: one completion, or the script's next message.
func (c *scriptConn) receive(context.Context) error {
	if len(c.completions) > 0 {
		w := c.completions[0]
		c.completions = c.completions[1:]
		c.batch.Begin()
		c.batch.Completed(w.ID, w.Op)
		_, _ = c.batch.End()
		c.batch.Wake()
		return nil
	}
	if c.err != nil {
		return c.err
	}
	if len(c.script) == 0 {
		c.Fail(verbs.ErrClosed)
		return c.err
	}
	var q wire.Msg
	if _, err := q.Parse(c.sent[len(c.sent)-1]); err != nil {
		c.t.Fatal(err)
	}
	a := c.script[0]
	c.script = c.script[1:]
	b := a(c, &q)
	if b == nil {
		return context.Canceled
	}
	c.free = c.deliver(c.free, b)
	return c.useless
}

// deliver hands over the message b in receive buffer buf, and returns the one that is free for it.
func (c *scriptConn) deliver(buf int, b []byte) (free int) {
	b = c.bufs[buf].Bytes()[:copy(c.bufs[buf].Bytes(), b)]
	c.batch.Begin()
	free = c.take(buf, b)
	_, c.useless = c.batch.End()
	c.batch.Wake()
	if !c.batch.Empty() {
		c.t.Error("a batch is not empty when it is done")
	}
	return free
}

// take is what a connection does with a message. The batch is begun.
func (c *scriptConn) take(buf int, b []byte) (free int) {
	h, err := wire.ParseHeader(b, wire.AllVersions)
	a := Arrived{Buf: buf, Len: len(b)}
	switch {
	case err != nil:
	case h.Proc == wire.ProcMsg || h.Proc == wire.ProcNoMsg:
		if a.Header, err = c.msg.Parse(b); err == nil {
			return c.batch.Replied(&c.msg, a)
		}
	case h.Proc == wire.ProcMsgP:
		if a.Header, a.Padding, err = rfc5666.Parse(&c.msg, b); err == nil {
			return c.batch.Replied(&c.msg, a)
		}
	case h.Proc == wire.ProcError:
		var e wire.Error
		if _, err = e.Parse(b); err == nil {
			c.batch.Errored(&e)
			return buf
		}
	}
	c.batch.Useless()
	var bad *wire.ParseError
	if errors.As(err, &bad) && len(b) >= wire.EmptyLen1 {
		c.batch.Garbled(bad.Header.XID, err)
	}
	return buf
}

func (c *scriptConn) NewWindow() (verbs.Window, error) { return &scriptWindow{c: c}, nil }
func (c *scriptConn) Buffer(i int) []byte              { return c.bufs[i].Bytes() }
func (c *scriptConn) TakeBack(mem.Seg)                 { c.lent-- }
func (c *scriptConn) Terms() plan.Terms                { return c.terms }
func (c *scriptConn) Sending(uint32)                   {}
func (c *scriptConn) Done() <-chan struct{}            { return c.done }
func (c *scriptConn) Quiet() <-chan struct{}           { return c.quiet }
func (c *scriptConn) Err() error                       { return c.err }

func (c *scriptConn) Lend(_ context.Context, n int) (mem.Seg, error) {
	if n > longSize || c.lent > 0 {
		return mem.Seg{}, errors.New("no memory")
	}
	c.lent++
	return c.arena.Seg(1<<20, n), nil
}

func (c *scriptConn) Agree(_ wire.Header, refusal *wire.Error) bool { return refusal == nil }

func (c *scriptConn) Fail(err error) {
	if c.err == nil {
		c.err = err
		clear(c.bound)
		close(c.done)
		close(c.quiet)
	}
}

// wantIdle checks that nothing is left of the calls made.
func (c *scriptConn) wantIdle() {
	c.t.Helper()
	if u := c.r.Usage(); u.Outstanding != 0 || u.Free != len(c.r.all) || u.Keys != 0 {
		c.t.Errorf("in use: %+v", u)
	}
	if u := c.r.Credits().Usage(); u != (credit.Usage{}) {
		c.t.Errorf("credits in use: %+v", u)
	}
	if len(c.bound) != 0 || c.lent != 0 {
		c.t.Errorf("keys %v can be used, %d long buffers are lent", c.bound, c.lent)
	}
}

// words encodes numbers.
func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// accepted is an RPC reply with results.
func accepted(xid uint32, results ...uint32) []byte {
	return words(append([]uint32{xid, 1, 0, 0, 0, 0}, results...)...)
}

// recorded are the messages of a file of package wire's.
func recorded(t testing.TB, file string, field int) (hs [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "wire", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		b, err := hex.DecodeString(strings.Fields(line)[field])
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, b)
	}
	return hs
}

// ping returns one word.
func ping() *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: 1, ReplyMax: 4, Result: func(r *xdr.Reader) error {
		r.Uint32()
		return r.End()
	}}
}

// read returns a payload in v, and its length in n.
func read(v mem.Vec, n *int) *transport.Call {
	return &transport.Call{Prog: 100003, Vers: 3, Proc: 6, ReplyMax: 8, Recv: []transport.Payload{v},
		Result: func(r *xdr.Reader) error {
			*n = r.Payload(0)
			return r.End()
		}}
}

// write sends the payload v.
func write(v mem.Vec) *transport.Call {
	c := ping()
	c.Proc, c.Send = 7, []transport.Payload{v}
	c.Args = func(w *xdr.Writer) { w.Payload(0) }
	return c
}

// list may return so many bytes.
func list(n int) *transport.Call {
	c := ping()
	c.ReplyMax = n
	return c
}

// calls offer nothing, a write chunk with padding, and a reply chunk.
func calls(a *mem.Arena, n *int) []*transport.Call {
	return []*transport.Call{ping(), read(mem.Vec{a.Seg(0, 5001), a.Seg(8192, 5000)}, n), list(8000)}
}

// wantFate checks an error.
func wantFate(t testing.TB, err error, fate transport.Fate, target error) {
	t.Helper()
	var te *transport.Error
	if !errors.As(err, &te) || te.Fate != fate || target != nil && !errors.Is(err, target) {
		t.Errorf("error %v, want fate %v, %v", err, fate, target)
	}
}

func wantOps(t testing.TB, got []verbs.Op, want ...verbs.Op) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("posted %v, want %v", got, want)
	}
}
