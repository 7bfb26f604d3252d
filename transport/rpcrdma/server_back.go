package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// backchannel is the requester of a server's connection: calls in the backward
// direction (RFC 8167), all inline, with XIDs and credits of their own. A call
// runs on its caller's goroutine; the worker that takes up its reply copies that
// into the call's slot.
type backchannel struct {
	c       *serverConn
	credits *credit.Credits
	// version is that of the client's calls, which these must have as well.
	version atomic.Uint32
	ended   chan struct{}
	users   sync.WaitGroup
	all     []backSlot

	mu   sync.Mutex
	over bool
	xid  uint32 // the last one used
	// slots are by XID; free ones are neither awaited nor being sent.
	slots map[uint32]*backSlot
	free  []*backSlot
}

// backSlot is what one call under way needs. Its caller owns it until the reply
// has come and the Send has completed, or until it gives the call up; then
// what is still missing keeps it from being used again.
type backSlot struct {
	index int
	buf   mem.Seg
	cw    xdr.Writer
	hw    xdr.Writer
	r     xdr.Reader
	wrs   []verbs.SendWR
	long  backLong
	wc    [4]verbs.Completion
	woke  chan struct{}

	// Guarded by backchannel.mu:
	xid, version     uint32
	sending, waiting bool
	abandoned        bool
	closing          bool        // its keys are being made invalid
	placed           wire.Chunk  // of the reply
	padding          xdr.Padding // of body
	body             []byte      // of the reply; its memory is used again
	fault            error
}

func newBackchannel(c *serverConn, bufs func(i int) mem.Seg) *backchannel {
	n := c.s.cfg.Backward
	b := &backchannel{
		c: c, credits: credit.New(n), ended: make(chan struct{}), all: make([]backSlot, n),
		xid: rand.Uint32(), slots: map[uint32]*backSlot{},
	}
	b.version.Store(Version1)
	for i := range b.all {
		s := &b.all[i]
		*s = backSlot{index: i, buf: bufs(i), woke: make(chan struct{}, 1)}
		b.free = append(b.free, s)
	}
	return b
}

var errNoBackward = errors.New("the client takes no calls (RDMA2_BKREQSUP_NONE)")

var errBackTooLong = errors.New("call exceeds what the client takes inline")

func (b *backchannel) Done() <-chan struct{} { return b.ended }

// Call is transport.Backchannel.
func (b *backchannel) Call(ctx context.Context, c *transport.Call) error {
	if !b.enter() {
		return &transport.Error{Fate: transport.NotSent, Err: transport.ErrClosed}
	}
	defer b.users.Done()
	if _, err := b.credits.Acquire(ctx, b.ended); err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	s := b.take()
	if err := b.send(ctx, s, c); err != nil {
		b.fence(s, true)
		b.giveUp(s, true)
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	err := b.await(ctx, s)
	over := err == nil
	if over {
		err = s.collect()
	}
	b.fence(s, over)
	var bad *badReplyError
	switch {
	case errors.As(err, &bad):
		b.giveUp(s, true)
		return &transport.Error{Fate: transport.Answered, Err: err}
	case err != nil:
		b.giveUp(s, false)
		return &transport.Error{Fate: transport.Unknown, Err: err}
	}
	err = s.decode(c)
	b.giveUp(s, true)
	return err
}

// enter counts a call in, unless the connection has ended.
func (b *backchannel) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.users.Add(1)
	}
	return !b.over
}

// end fails the calls under way and waits for them. Nothing is sent any more.
func (b *backchannel) end() {
	b.mu.Lock()
	b.over = true
	close(b.ended)
	b.mu.Unlock()
	b.users.Wait()
}

// take takes a slot and an XID. The caller has a credit, so there is a slot.
func (b *backchannel) take() *backSlot {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.free)
	s := b.free[n-1]
	b.free = b.free[:n-1]
	for b.xid++; b.slots[b.xid] != nil; b.xid++ {
	}
	s.xid, s.sending, s.waiting, s.abandoned, s.fault = b.xid, false, true, false, nil
	s.closing, s.placed = false, nil
	s.version = b.version.Load()
	b.slots[s.xid] = s
	return s
}

// send encodes and posts the call. After an error nothing has been sent.
func (b *backchannel) send(ctx context.Context, s *backSlot, c *transport.Call) error {
	h := wire.Msg{Header: wire.Header{XID: s.xid, Version: s.version, Credits: uint32(b.credits.Requested), Proc: wire.ProcMsg}}
	if h.Version == Version2 {
		switch b.c.props.peerTakes() {
		case wire.BackwardNone:
			return errNoBackward
		case wire.BackwardGeneral:
			if b.c.s.dev.Caps().RegionKeys {
				break // as with ServerConfig.ReadReplies, nothing is opened
			}
			if long, err := b.sendLong(ctx, s, c, &h); long {
				return err
			}
		}
	}
	msg := s.buf.Slice(0, b.c.sendInline(h.Version))
	s.hw.Reset(msg.Bytes(), nil)
	h.Append(&s.hw)
	head := len(s.hw.Bytes())
	stream := msg.Slice(head, msg.Len-head).Bytes()
	s.cw.Reset(stream, c.Send)
	oncrpc.AppendCall(&s.cw, s.xid, c)
	if s.cw.Len() > len(stream) {
		return fmt.Errorf("%w: %d bytes, %d are allowed", errBackTooLong, head+s.cw.Len(), msg.Len)
	}
	n := plan.LayOut(stream, s.cw.Bytes(), s.cw.Marks(), c.Send, 0, true)
	return b.post(ctx, s, msg.Slice(0, head+n))
}

// post posts what is in s.wrs, and the Send of msg.
func (b *backchannel) post(ctx context.Context, s *backSlot, msg mem.Seg) error {
	b.mu.Lock()
	s.sending = true
	b.mu.Unlock()
	s.wrs = append(s.wrs, verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{msg}})
	err := b.c.post(ctx, len(b.c.calls)+s.index, s.wrs, s.wc[:])
	s.wrs = s.wrs[:0]
	if err != nil {
		if !errors.Is(err, ctx.Err()) {
			// Windows may be bound; nothing reaches them when this is over.
			b.c.fail(err)
			<-b.ended
		}
		b.mu.Lock()
		s.sending = false
		s.long.unbound()
		b.mu.Unlock()
		return err
	}
	b.c.s.count.backward.Add(1)
	return nil
}

// await waits for the reply and for the end of the Send.
func (b *backchannel) await(ctx context.Context, s *backSlot) error {
	for {
		b.mu.Lock()
		pending := s.waiting || s.sending
		b.mu.Unlock()
		if !pending {
			return nil
		}
		select {
		case <-s.woke:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.ended:
			return errLinkDead
		}
	}
}

// giveUp ends the caller's part in s. answered: no reply is to come.
func (b *backchannel) giveUp(s *backSlot, answered bool) {
	b.mu.Lock()
	s.abandoned = true
	if answered {
		s.waiting = false
	}
	b.changed(s)
}

// changed wakes s's caller, or puts s back if that is gone and nothing is missing
// any more. It unlocks b.mu.
func (b *backchannel) changed(s *backSlot) {
	idle := s.abandoned && !s.waiting && !s.sending
	if idle {
		s.abandoned = false // so that it is put back once
		delete(b.slots, s.xid)
		b.free = append(b.free, s)
	} else {
		select {
		case s.woke <- struct{}{}:
		default:
		}
	}
	b.mu.Unlock()
	if idle {
		b.credits.Release(credit.Live)
	}
}

// sent handles the completion of a slot's Send, or of the invalidation of its
// keys.
func (b *backchannel) sent(i int, op verbs.Op) {
	s := &b.all[i]
	b.mu.Lock()
	if op == verbs.OpLocalInvalidate {
		s.closing = false
	} else {
		s.sending = false
	}
	b.changed(s)
}

// replied handles an RPC reply that in holds, of which header bytes are the transport's. It tells whether a call
// waited for it.
func (b *backchannel) replied(h *wire.Msg, in []byte, header int, p xdr.Padding) bool {
	s := b.awaited(h.XID)
	if s == nil {
		return false
	}
	s.padding = p
	other := h.Version != s.version
	switch l := &h.Lists; {
	case other:
		s.fault = badReply("version %d, in answer to version %d", h.Version, s.version)
	case len(l.Read)+len(l.Write) > 0 || l.Reply != nil && s.long.offered == nil || h.Proc == wire.ProcNoMsg && l.Reply == nil:
		s.fault = badReply("it has chunks, and none were offered")
	case h.Proc == wire.ProcNoMsg:
		s.placed = append(wire.Chunk{}, l.Reply...)
	default:
		s.body = append(s.body[:0], in[header:]...)
	}
	b.changed(s)
	if !other {
		b.credits.Grant(h.Credits)
	}
	return true
}

// failed is replied for an error. No credit is granted by one, of which nothing says for sure whose it is (RFC 8167
// section 4.1).
func (b *backchannel) failed(e *wire.Error) bool {
	s := b.awaited(e.XID)
	if s == nil {
		return false
	}
	if e.Version != s.version && e.Code != wire.ErrVers {
		s.fault = badReply("version %d, in answer to version %d", e.Version, s.version)
	} else {
		s.fault = &ReplyError{Version: e.Version, Code: e.Code, Fault: e.Fault, Low: e.Low, High: e.High}
	}
	b.changed(s)
	return true
}

// garbled handles a message of n bytes in the direction of replies whose header
// cannot be parsed, and tells whether a call waited for it: as in link.refuse, that
// fails. In version 1 nothing tells the direction of such a message.
func (b *backchannel) garbled(e *wire.ParseError, n int) bool {
	h := &e.Header
	if h.Version != Version2 || h.Proc != wire.ProcMsg && h.Proc != wire.ProcNoMsg && h.Proc != wire.ProcError || n < wire.ErrorLen2 {
		return false
	}
	s := b.awaited(h.XID)
	if s == nil {
		return false
	}
	s.fault = e
	b.changed(s)
	return true
}

// awaited returns the slot of a call that waits for a reply, and has it wait no longer, or nil. Unless it is nil, b.mu is
// held until changed.
func (b *backchannel) awaited(xid uint32) *backSlot {
	b.mu.Lock()
	s := b.slots[xid]
	if s == nil || !s.waiting {
		b.mu.Unlock()
		return nil
	}
	s.waiting = false
	return s
}

// decode decodes the reply in s.
func (s *backSlot) decode(c *transport.Call) error {
	if s.fault != nil {
		return &transport.Error{Fate: transport.Answered, Err: s.fault}
	}
	s.r.Reset(s.body, c.Recv, nil)
	s.r.SetPadding(s.padding)
	return oncrpc.DecodeReply(&s.r, s.xid, c)
}
