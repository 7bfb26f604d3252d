package tcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// keepHead is the longest encoding buffer that an idle exchange keeps.
const keepHead = 64 << 10

// exchange is one call under way.
type exchange struct {
	packet
	w     xdr.Writer
	r     xdr.Reader
	recv  []mem.Vec // the call's Recv, for the reader while filling
	room  int       // length of recv[0] where it is the only one, or 0
	limit int       // bound of the reply
	long  bool      // the reply may be too long for its caller to receive it
	// waiter is woken when rec or err is set, or abandoned is heeded.
	waiter turn.Waiter

	// Guarded by requester.mu.
	rec *buffer // the reply, for the caller to put
	err error   // what was wrong with the reply
	// placed is what the reader has put into recv[0]; in rec its roundup follows at
	// placed.at. The zero value: all is in rec.
	placed placed
	// filling: the reader is reading into recv[0]. abandoned: it must stop.
	filling, abandoned bool
}

var exchanges = sync.Pool{New: func() any { return &exchange{waiter: turn.NewWaiter()} }}

// Exchange sends c under xid and waits for its result.
func (q *requester) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	if err := ctx.Err(); err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	x := exchanges.Get().(*exchange)
	x.w.Reset(x.w.Bytes(), c.Send)
	oncrpc.AppendCall(&x.w, xid, c)
	if n := x.w.Len(); n > q.maxRecord {
		x.recycle()
		return &transport.Error{Fate: transport.NotSent, Err: fmt.Errorf("call of %d bytes exceeds the bound of %d", n, q.maxRecord)}
	}
	x.pack(&x.w, c.Send)
	x.recv, x.room = c.Recv, 0
	x.limit = replyLimit(c, q.maxRecord)
	x.long = x.limit > maxWhole
	if q.turn != nil && x.long && len(c.Recv) == 1 && c.Protection() == nil {
		x.room = c.Recv[0].Len()
	}
	if err := q.add(ctx, xid, x); err != nil {
		x.recycle()
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	q.stats.calls.Add(1)
	c.Trip = transport.Trip{Sent: time.Now(), BytesSent: x.w.Len()}
	q.out.enqueue(ctx, &x.packet)
	if c.Sent != nil {
		c.Sent()
	}
	q.await(ctx, x)
	sent := q.out.withdraw(ctx, &x.packet)
	rec, err := q.take(xid, x)
	switch {
	case err != nil:
		err = &transport.Error{Fate: transport.Answered, Err: err}
	case rec != nil:
		c.Trip.BytesReceived = len(rec.b) + x.placed.n
		if c.Timed {
			c.Trip.Replied = time.Now()
		}
		err = x.decode(rec, xid, c)
		if err == nil && ctx.Err() == nil {
			x.recycle()
		}
		return err
	case ctx.Err() != nil:
		err = &transport.Error{Fate: fate(sent), Err: ctx.Err()}
	default:
		err = &transport.Error{Fate: fate(sent), Err: q.lost(q.Err())}
	}
	return err
}

// ExchangeOverdue is Exchange: a stream limits no calls.
func (q *requester) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	return q.Exchange(ctx, xid, c)
}

// replyLimit bounds the reply to c.
func replyLimit(c *transport.Call, limit int) int {
	n := oncrpc.ReplyBound(c)
	for _, v := range c.Recv {
		n += v.Len() + xdr.Pad(v.Len())
	}
	return min(n, limit)
}

// fate is that of a call without a reply.
func fate(s packetState) transport.Fate {
	if s == packetFailed {
		return transport.NotSent
	}
	return transport.Unknown
}

// recycle makes x free for another call. Nobody else may know of it.
func (x *exchange) recycle() {
	if cap(x.w.Bytes()) > keepHead {
		x.w = xdr.Writer{}
	} else {
		x.w.Reset(x.w.Bytes(), nil)
	}
	x.r.Reset(nil, nil)
	x.rec, x.err, x.recv, x.placed = nil, nil, nil, placed{}
	clear(x.bufs)
	select {
	case <-x.waiter.Woke:
	default:
	}
	exchanges.Put(x)
}
