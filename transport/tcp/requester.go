package tcp

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/turn"
)

// requester makes calls on the peer of a connection. Who reads the connection
// hands the replies to it.
type requester struct {
	conn  net.Conn
	out   *outbox
	stats *counters
	// peer names the other end in errors.
	peer string
	// maxRecord bounds every record sent and received.
	maxRecord int
	// turn is whose turn it is to read the connection, by drive; runReader may read data of replies straight into payloads
	// then, and stops when the read deadline is moved. Both are nil on a server, where runConn reads.
	turn  *turn.Turn
	drive func(ctx context.Context, w *turn.Waiter) error

	done chan struct{} // closed by end

	mu      sync.Mutex
	err     error // why done is closed
	pending map[uint32]*exchange
}

func (q *requester) init() {
	q.done, q.pending = make(chan struct{}), map[uint32]*exchange{}
}

// Done is closed when the connection is lost or closed.
func (q *requester) Done() <-chan struct{} { return q.done }

// Err says why Done is closed.
func (q *requester) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// end fails the calls under way, and those to come, for the first reason given,
// and reports whether this is it.
func (q *requester) end(err error) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first = q.err == nil
	if first {
		q.err = err
		close(q.done)
	}
	return first
}

// lost is the error of a call on a connection that ended for the reason given.
func (q *requester) lost(why error) error {
	return fmt.Errorf("connection to %s lost: %w", q.peer, why)
}

// add makes x the exchange that a reply under xid belongs to.
func (q *requester) add(ctx context.Context, xid uint32, x *exchange) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.lost(q.err)
	}
	if q.pending[xid] != nil {
		return fmt.Errorf("transaction id %#x is in use", xid)
	}
	q.pending[xid] = x
	x.waiter.Init(ctx)
	return nil
}

// find is the exchange that waits for the reply to xid, or nil. It stays valid
// though its caller may leave: then it is not used again.
func (q *requester) find(xid uint32) *exchange {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending[xid]
}

// take ends the wait for a reply and returns what has come, once nothing is
// read into the call's payloads any more. The caller must put rec.
func (q *requester) take(xid uint32, x *exchange) (rec *buffer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x.waiter.Clear()
	if q.pending[xid] == x {
		delete(q.pending, xid)
	}
	if x.filling {
		q.stopFilling(x)
		q.mu.Unlock()
		<-x.waiter.Woke
		q.mu.Lock()
	}
	return x.rec, x.err
}

// deliver gives what came under xid to its exchange; it takes rec.
func (q *requester) deliver(xid uint32, x *exchange, rec *buffer, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[xid] == x {
		delete(q.pending, xid)
		x.rec, x.err = rec, err
		q.wake(x)
	} else if rec != nil {
		rec.put() // the caller has left
	}
}

// wake wakes the caller of x, whose reply has come. mu is held.
func (q *requester) wake(x *exchange) {
	if q.turn != nil {
		q.turn.Unlist(&x.waiter)
	}
	x.waiter.Wake()
}

// errTooLongReply is the error of a call whose reply is longer than it allows.
func errTooLongReply(x *exchange) error {
	return fmt.Errorf("%w: %w: reply exceeds the call's bound of %d bytes", transport.ErrProtocol, transport.ErrReplyBound, x.limit)
}
