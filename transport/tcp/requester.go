package tcp

import (
	"fmt"
	"net"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
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
	// direct: whoever reads the connection may read data of replies straight into
	// payloads, and stops when the read deadline is moved.
	direct bool

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
func (q *requester) add(xid uint32, x *exchange) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.lost(q.err)
	}
	if q.pending[xid] != nil {
		return fmt.Errorf("transaction id %#x is in use", xid)
	}
	q.pending[xid] = x
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
	if q.pending[xid] == x {
		delete(q.pending, xid)
	}
	if x.filling {
		q.stopFilling(x)
		q.mu.Unlock()
		<-x.ready
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
		x.ready <- struct{}{}
	} else if rec != nil {
		rec.put() // the caller has left
	}
}

// errTooLongReply is the error of a call whose reply is longer than it allows.
func errTooLongReply(x *exchange) error {
	return fmt.Errorf("%w: reply exceeds the call's bound of %d bytes", transport.ErrProtocol, x.limit)
}
