package requester

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/stall"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Rules are what differs between the requesters of the two directions: a client's link makes calls on its server, a
// server's connection those of the backward direction (RFC 8167).
type Rules struct {
	// Credits is how many are asked for.
	Credits int
	// MaxSGE is the device's. Invalidates: the responder may invalidate keys of ours.
	MaxSGE      int
	Invalidates bool
	// MaxPayload bounds the payload bytes of one call each way. MaxLong, unless it is 0, bounds calls that do not go
	// inline, and reply chunks.
	MaxPayload, MaxLong int
	// Copies: payloads are copied into the call, as they may be in memory that is not registered.
	Copies bool
	// Patient: a connection whose credits are held by abandoned calls is not ended; its callers wait.
	Patient bool
	// Resends is how often a call is sent again that is refused in a way that can be helped.
	Resends int
	Count   *Counters
	// Stall ends the connection when its peer takes no data; it is nil where somebody else sees to that.
	Stall *stall.Watch
	// Receive takes completions and does what they are about; it returns when there were some, with ctx, or with the
	// connection. Interrupt makes it look at ctx. They are nil on a connection whose callers do not receive.
	Receive   func(ctx context.Context) error
	Interrupt func()
	// Corners is nil unless corners of RFC 5666 are configured.
	Corners *Corners
}

// MaxResends is how often a call is sent again on one connection, if it is at all. Each time it has
// what the refusal before asked for, so that more than a few are a fault.
const MaxResends = 8

// MaxHead bounds what a long message has besides payloads.
const MaxHead = 64 << 10

// Conn is what a requester needs of its connection.
type Conn interface {
	// Post posts s.WRs, and waits for room until stop, which is ctx's or nil.
	Post(ctx context.Context, s *Sender, stop <-chan struct{}) (posted int, err error)
	NewWindow() (verbs.Window, error)
	// Buffer is a receive buffer.
	Buffer(i int) []byte
	// Lend leases memory for long messages, TakeBack takes it back.
	Lend(ctx context.Context, n int) (mem.Seg, error)
	TakeBack(s mem.Seg)
	// Terms are those for a call that is to be sent next, and Sending records that one of that version is. Agree takes the
	// answer to a call, refusal being nil unless it is an error, and reports whether its grant counts. The requester's
	// lock is held.
	Terms() plan.Terms
	Sending(version uint32)
	Agree(h wire.Header, refusal *wire.Error) (grants bool)
	// Fail ends the connection: Done is closed, and later, when no memory is touched any more, Quiet. Err is why it has
	// ended, and nil before.
	Fail(err error)
	Done() <-chan struct{}
	Quiet() <-chan struct{}
	Err() error
}

// Memory is the registered memory of one outstanding call: a transport header of HeaderLen bytes, a call's inline stream,
// ScratchLen bytes; and the number of a receive buffer.
type Memory struct {
	Header, Call, Scratch mem.Seg
	Buffer                int
}

// Requester makes calls on a connection. mu is held for moments, never while work is posted or waited for.
type Requester struct {
	conn    Conn
	corners *corners // nil unless they are configured

	credits    *credit.Credits
	maxSGE     int
	maxPayload int
	maxLong    int
	resends    int
	// invalidates, copies and patient are those of Rules.
	invalidates, copies, patient bool
	// regionKeys is Caps.RegionKeys; names then has keys and addresses.
	regionKeys bool
	names      verbs.Window
	count      *Counters
	stall      *stall.Watch
	// turn is whose turn it is to call receive; nil where callers do not.
	turn    *turn.Turn
	receive func(ctx context.Context) error

	all         []slot
	done, quiet <-chan struct{} // the connection's
	// users are the running exchanges, and runDone.
	users sync.WaitGroup

	mu    sync.Mutex
	slots map[uint32]*slot
	free  []*slot
	// learnt is what the responder has turned out to demand of all calls.
	learnt  plan.Demands
	windows []verbs.Window
	// silent counts requests posted since one that was signaled; the send queue
	// has sendQueue places.
	silent, sendQueue int
	// useless counts messages of no use since the last good one.
	useless int
}

// New returns a requester whose connection is not established yet: see Connected. It borrows c, and has as many slots as
// there is memory for, one for each credit.
func New(c Conn, rules *Rules, slots []Memory) *Requester {
	r := &Requester{
		conn: c, credits: credit.New(rules.Credits), maxSGE: rules.MaxSGE, maxPayload: rules.MaxPayload, maxLong: rules.MaxLong,
		resends: rules.Resends, invalidates: rules.Invalidates, copies: rules.Copies, patient: rules.Patient,
		count: rules.Count, stall: rules.Stall, receive: rules.Receive,
		all: make([]slot, len(slots)), done: c.Done(), quiet: c.Quiet(), slots: map[uint32]*slot{},
	}
	if r.receive != nil {
		r.turn = turn.New(&r.mu, rules.Interrupt)
	}
	if rules.Corners != nil {
		r.corners = newCorners(r, rules.Corners)
	}
	for i, m := range slots {
		s := &r.all[i]
		*s = slot{index: i, buf: m.Buffer, waiter: turn.NewWaiter(), header: m.Header, call: m.Call, scratch: m.Scratch}
		if r.stall != nil {
			r.stall.Add(&s.Deadline)
		}
		r.free = append(r.free, s)
	}
	return r
}

// Connected has calls begin: the connection's send queue has sendQueue places. With region keys (verbs.Caps) names is a window
// that knows keys and addresses, otherwise it is nil.
func (r *Requester) Connected(sendQueue int, names verbs.Window) {
	r.sendQueue, r.names, r.regionKeys = sendQueue, names, names != nil
	if r.corners != nil && r.corners.undone != nil {
		r.users.Add(1)
		go r.corners.runDone()
	}
}

// Wait waits for the outstanding calls, once the connection has ended.
func (r *Requester) Wait() {
	// A call that has not seen the connection end has been counted in when mu is free.
	r.mu.Lock()
	//lint:ignore SA2001 see above
	r.mu.Unlock()
	r.users.Wait()
}

// Credits are those of the connection.
func (r *Requester) Credits() *credit.Credits { return r.credits }

// Turn is whose turn it is to receive; nil where callers do not.
func (r *Requester) Turn() *turn.Turn { return r.turn }

// IDs is the number of IDs that work requests of r have: those from 0 on.
func (r *Requester) IDs() uint64 { return 3 * uint64(len(r.all)) }

// The IDs of a slot's work requests carry its index: an even one and the next, and, for RDMA Reads, one that follows those
// of all slots.
func sendID(s *slot) uint64              { return uint64(s.index) << 1 }
func invalidateID(s *slot) uint64        { return uint64(s.index)<<1 | 1 }
func (r *Requester) readID(i int) uint64 { return 2*uint64(len(r.all)) + uint64(i) }

// Usage is what of a requester is in use.
type Usage struct {
	// Outstanding are the calls that have a slot: Replied those whose reply is with their caller, Draining those given up
	// whose reply has come, and whose Send has not completed.
	Outstanding, Replied, Draining int
	// Free are the slots that no call has, Keys those that the peer may still use.
	Free, Keys int
}

// Usage is a snapshot.
func (r *Requester) Usage() (u Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.Outstanding, u.Free = len(r.slots), len(r.free)
	for _, s := range r.slots {
		u.Keys += len(s.keys)
		switch s.state {
		case slotReplied:
			u.Replied++
		case slotDraining:
			u.Draining++
		}
	}
	return u
}

// Has reports whether a call has that XID, if only for its reply.
func (r *Requester) Has(xid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[xid] != nil
}

// terms are those for a call that is to be sent next. r.mu is held.
func (r *Requester) terms() plan.Terms {
	t := r.conn.Terms()
	t.Demands = t.With(r.learnt)
	return t
}

// bound refuses a call that is too long for its connection, and bounds the chunk for its reply.
func (r *Requester) bound(s *slot) error {
	most := r.maxLong
	switch {
	case s.plan.Call == plan.CallInline:
	case s.terms.InlineOnly:
		return fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLong, s.plan.HeaderLen+s.plan.CallLen, s.terms.SendInline)
	case most > 0 && s.plan.CallLen > most:
		return fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLong, s.plan.CallLen, most)
	}
	if most > 0 {
		s.plan.ReplyLen = min(s.plan.ReplyLen, most)
	}
	return nil
}

// watch ends the connection if the sender is not done in time.
func (r *Requester) watch(ctx context.Context, s *Sender) {
	if r.stall != nil {
		r.stall.Set(ctx, &s.Deadline)
	}
}
