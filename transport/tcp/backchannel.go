package tcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
)

// backchannel makes calls on the client of a serverConn. It implements
// transport.Backchannel.
type backchannel struct {
	c     *serverConn
	calls atomic.Int32 // under way

	mu    sync.Mutex
	ended error
	req   *requester // made when it is needed first
	xid   uint32
	// used is req once a call was made, for the reader.
	used atomic.Pointer[requester]
}

var _ transport.Backchannel = (*backchannel)(nil)

// errBackBusy: as many calls on the client are under way as there may be.
var errBackBusy = errors.New("too many calls on the client")

// maxBackCalls bounds the calls under way on one client: one more fails at once.
// It would have to wait for a call that waits for the client.
const maxBackCalls = 256

// Call implements transport.Backchannel.
func (b *backchannel) Call(ctx context.Context, c *transport.Call) error {
	req, xid, err := b.begin()
	if err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	defer func() {
		b.calls.Add(-1)
		b.c.active.Add(-1)
	}()
	b.c.crew.Relieve() // somebody must receive the reply
	return req.Exchange(ctx, xid, c)
}

// begin counts a call, which keeps the connection from being idle.
func (b *backchannel) begin() (*requester, uint32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls.Load() >= maxBackCalls {
		return nil, 0, errBackBusy
	}
	req := b.requester()
	if b.ended != nil {
		return nil, 0, req.lost(b.ended)
	}
	b.used.Store(req)
	b.xid++
	b.calls.Add(1)
	b.c.active.Add(1)
	b.c.tellRoom()
	return req, b.xid, nil
}

// requester is req; mu is held.
func (b *backchannel) requester() *requester {
	if b.req == nil {
		b.xid = rand.Uint32()
		b.req = &requester{conn: b.c.conn, out: &b.c.out, stats: new(counters), peer: b.c.peer, maxRecord: b.c.s.cfg.MaxRecord}
		b.req.init()
		if b.ended != nil {
			b.req.end(b.ended)
		}
	}
	return b.req
}

// Done implements transport.Backchannel.
func (b *backchannel) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requester().Done()
}

// end fails all calls: nothing is read from the connection any more.
func (b *backchannel) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	if b.req != nil {
		b.req.end(err)
	}
}

// deliver gives rec to the call whose reply it is, if it is a reply and there
// has been a call; it takes rec then. A reply for which nobody waits any more is
// dropped.
func (b *backchannel) deliver(rec *buffer) bool {
	req := b.used.Load()
	if req == nil {
		return false
	}
	xid, reply, ok := oncrpc.PeekXID(rec.b)
	if !ok || !reply {
		return false
	}
	switch x := req.find(xid); {
	case x == nil:
		rec.put()
	case len(rec.b) > x.limit:
		rec.put()
		req.deliver(xid, x, nil, errTooLongReply(x))
	default:
		req.deliver(xid, x, rec, nil)
	}
	return true
}
