package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Backward calls that do not fit inline, or whose replies might not: in version
// 2, to a client that says RDMA2_BKREQSUP_GENL (the draft, section 6.2.2). The
// call goes as a Position-Zero read chunk, the reply may come in a reply chunk.

// backLong is what of a slot is for such calls.
type backLong struct {
	lease, call, reply mem.Seg
	// Guarded by backchannel.mu:
	offered wire.Chunk
	keys    []key
}

// sendLong sends the call if it does not fit inline, or its reply might not. It
// tells whether that is so; if not, it has done nothing.
func (b *backchannel) sendLong(ctx context.Context, s *backSlot, c *transport.Call, h *wire.Msg) (long bool, err error) {
	cfg := &b.c.s.cfg
	most := min(maxBackLong, cfg.MaxPayload)
	msg := s.buf.Slice(0, b.c.sendInline(h.Version))
	s.cw.Reset(msg.Bytes(), c.Send)
	oncrpc.AppendCall(&s.cw, s.xid, c)
	call, reply := s.cw.Len(), oncrpc.ReplyBound(c)
	for _, v := range c.Recv {
		reply += v.Len() + xdr.Pad(v.Len())
	}
	if wire.EmptyLen2+reply <= min(cfg.InlineIn, b.c.props.receiveLimit()) {
		reply = 0
	}
	reply = min(reply+xdr.Pad(reply), most)
	room := wire.EmptyLen2
	if reply > 0 {
		room += wire.ReplyChunkLen(1)
	}
	inline := room+call <= msg.Len
	switch {
	case inline && reply == 0:
		return false, nil
	case inline:
		call = 0
	case call > most:
		return true, fmt.Errorf("%w: %d bytes, %d are allowed", errBackTooLong, call, most)
	default:
		h.Proc = wire.ProcNoMsg
	}
	l := &s.long
	at := longbuf.RoundUp(call, plan.Align)
	if l.lease, err = b.c.s.pool.Try(&b.c.acct, at+reply); err != nil {
		return true, err
	}
	l.call, l.reply = l.lease.Slice(0, call), l.lease.Slice(at, reply)
	if reply > 0 {
		seg, err := b.open(s, l.reply, verbs.RemoteWrite)
		if err != nil {
			return true, err
		}
		h.Lists.Reply = wire.Chunk{seg}
		b.mu.Lock()
		l.offered = h.Lists.Reply
		b.mu.Unlock()
	}
	n := room
	if inline {
		stream := msg.Slice(room, msg.Len-room).Bytes()
		s.cw.Reset(stream, c.Send)
		oncrpc.AppendCall(&s.cw, s.xid, c)
		n += plan.LayOut(stream, s.cw.Bytes(), s.cw.Marks(), c.Send, 0, true)
	} else {
		plan.LayOut(l.call.Bytes(), s.cw.Bytes(), s.cw.Marks(), c.Send, 0, true)
		seg, err := b.open(s, l.call, verbs.RemoteRead)
		if err != nil {
			return true, err
		}
		h.Lists.Read = []wire.ReadSegment{{Segment: seg}}
		n += wire.ReadListLen(1)
	}
	if b.c.s.dev.Caps().RemoteInvalidate {
		h.InvHandle = l.keys[0].rkey
	}
	s.hw.Reset(msg.Bytes(), nil)
	h.Append(&s.hw)
	return true, b.post(ctx, s, msg.Slice(0, n))
}

// open appends the request that opens m to the client.
func (b *backchannel) open(s *backSlot, m mem.Seg, access verbs.Access) (wire.Segment, error) {
	w, err := b.c.takeWindow()
	if err != nil {
		b.mu.Lock()
		s.long.unbound()
		b.mu.Unlock()
		s.wrs = s.wrs[:0]
		return wire.Segment{}, err
	}
	seg := wire.Segment{Handle: w.Next(m), Length: uint32(m.Len), Offset: w.Addr(m)}
	b.mu.Lock()
	s.long.keys = append(s.long.keys, key{window: w, rkey: seg.Handle})
	b.mu.Unlock()
	s.wrs = append(s.wrs, verbs.SendWR{Op: verbs.OpBind, Window: w, Access: access, Local: mem.Vec{m}})
	return seg, nil
}

// unbound notes that the keys are none, because their binds were not posted or
// the connection is closed.
func (l *backLong) unbound() {
	for i := range l.keys {
		l.keys[i].dead = true
	}
}

// invalidated notes that the client has invalidated a key.
func (b *backchannel) invalidated(rkey uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.all {
		for j := range b.all[i].long.keys {
			if k := &b.all[i].long.keys[j]; k.rkey == rkey {
				k.dead = true
			}
		}
	}
}

// collect takes the reply out of the reply chunk, if it came there, and refuses
// one that breaks what was offered.
func (s *backSlot) collect() error {
	if s.placed == nil {
		return nil
	}
	n, err := returned(s.placed, s.long.offered)
	if err != nil {
		return err
	}
	s.body = append(s.body[:0], s.long.reply.Bytes()[:n]...)
	if xid, reply, ok := oncrpc.PeekXID(s.body); !ok || !reply || xid != s.xid {
		return badReply("reply chunk of %d bytes without the reply to the call", n)
	}
	return nil
}

// fence makes the keys of s invalid and gives its memory back. It returns when
// the client can reach nothing of it any more; a client that lets it wait for
// too long is dropped by runWatch. Unless the call is over, the client may be
// invalidating a key itself: then windows are freed, as in link.quiesce.
func (b *backchannel) fence(s *backSlot, over bool) {
	l := &s.long
	if l.lease.Len == 0 {
		return
	}
	if !over {
		b.freeWindows(l)
	}
	var wrs []verbs.SendWR
	b.mu.Lock()
	for _, k := range l.keys {
		if !k.dead {
			wrs = append(wrs, verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: k.rkey})
		}
	}
	s.closing = len(wrs) > 0
	b.mu.Unlock()
	if len(wrs) > 0 {
		// Not bounded by the caller's context: the memory is not ours before.
		if err := b.c.post(context.Background(), len(b.c.calls)+s.index, wrs, s.wc[:]); err != nil && !errors.Is(err, errLinkDead) {
			b.c.fail(err)
		}
		b.settle(s)
	}
	b.c.mu.Lock()
	for _, k := range l.keys {
		b.c.windows = append(b.c.windows, k.window)
	}
	b.c.mu.Unlock()
	b.c.s.pool.Release(&b.c.acct, l.lease)
	b.mu.Lock()
	s.long = backLong{keys: l.keys[:0]}
	b.mu.Unlock()
}

// freeWindows frees the windows that the client may still use.
func (b *backchannel) freeWindows(l *backLong) {
	var open []verbs.Window
	b.mu.Lock()
	l.keys = slices.DeleteFunc(l.keys, func(k key) bool {
		if !k.dead {
			open = append(open, k.window)
		}
		return !k.dead
	})
	b.mu.Unlock()
	for _, w := range open {
		w.Free()
	}
}

// settle waits until the keys of s are invalid, or the connection is closed.
func (b *backchannel) settle(s *backSlot) {
	for {
		b.mu.Lock()
		closing := s.closing
		b.mu.Unlock()
		if !closing {
			return
		}
		select {
		case <-s.woke:
		case <-b.ended:
			return
		}
	}
}
