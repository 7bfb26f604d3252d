package rpcrdma

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// requester makes calls on a connection: on a client's link, and on a server's connection in the backward direction. mu
// is held for moments, never while work is posted or waited for.
type requester struct {
	port port
	// corner is nil unless corners of RFC 5666 are configured.
	corner corner

	credits *credit.Credits
	maxSGE  int
	// maxPayload bounds the payload bytes of one call each way.
	maxPayload int
	// invalidates: the responder may invalidate keys of ours.
	invalidates bool
	// copies: payloads are copied into the call, as they may be in memory that is not registered.
	copies bool
	// maxLong, unless it is 0, bounds calls that do not go inline, and reply chunks.
	maxLong int
	// patient: a connection whose credits are held by abandoned calls is not ended; its callers wait.
	patient bool
	// resends is how often a call is sent again that is refused in a way that can be helped.
	resends int
	// regionKeys is Caps.RegionKeys; names then has keys and addresses.
	regionKeys bool
	names      verbs.Window
	stats      *counters
	stall      *stall // nil on a server, where runWatch ends stalled connections
	// turn is whose turn it is to call drive, which takes completions and does what they are about. It returns when there
	// were some, with ctx, or with the connection. They are nil on a server, where runConn does that.
	turn  *turn.Turn
	drive func(ctx context.Context) error

	all []slot
	// done is closed at the end of the connection, quiet once it touches
	// no memory any more.
	done, quiet chan struct{}
	// users are the exchanges under way.
	users sync.WaitGroup

	mu    sync.Mutex
	err   error
	slots map[uint32]*slot
	free  []*slot
	// terms are those of version 1 until settled, and then of the version
	// settled on, but for what properties change.
	terms   plan.Terms
	windows []verbs.Window
	// silent counts requests posted since one that was signaled; the send queue
	// has sendQueue places.
	silent, sendQueue int
	// bad counts messages of no use since the last good one.
	bad int
	// scratch holds the message that is being looked at, wakeups and released what is to be done for the slots that it
	// concerns when its receive buffer has been posted again.
	scratch  wire.Msg
	wakeups  []*slot
	released int // credits of calls given up
}

// port is what a requester needs of its connection.
type port interface {
	// post posts s.wrs, and waits for room until stop, which is ctx's or nil.
	post(ctx context.Context, s *sender, stop <-chan struct{}) (posted int, err error)
	newWindow() (verbs.Window, error)
	// buffer is a receive buffer.
	buffer(i int) []byte
	// lend leases memory for long messages, giveBack takes it back.
	lend(ctx context.Context, n int) (mem.Seg, error)
	giveBack(s mem.Seg)
	// termsNow are the terms for a call that is to be sent next, and sending notes that it is. agree takes the answer to
	// a call, refusal being nil unless it is an error, and reports whether its grant counts. mu is held.
	termsNow() plan.Terms
	sending(s *slot)
	agree(h wire.Header, refusal *wire.Error) (grants bool)
	// fail ends the connection.
	fail(err error)
}

// corner hooks the corners of RFC 5666 into a requester that is configured to use them.
type corner interface {
	// encode encodes the call in s again, padded, if it is to be and fits.
	encode(s *slot, xid uint32, c *transport.Call)
	// appendHeader is the header of a padded call.
	appendHeader(s *slot)
	// refused reports whether err is the refusal of a call for no other reason than that it was padded.
	refused(s *slot, err error) bool
	// awaits reports whether a message with a read list is a reply that a call waits for. mu is held.
	awaits(m *wire.Msg) bool
	// fetch fetches the read chunks of the reply in s, if it has some.
	fetch(ctx context.Context, s *slot) error
	// read takes the completion of one of the RDMA Reads for that, of the slot with the index given, and returns the slot
	// when it was the last one.
	read(slot int) *slot
	// tooLate notes whether a reply that came too late has read chunks, and owes reports that once: the responder
	// has to be told that they are not needed any more. release does so, and owed has it done later. mu is held, but
	// not by the caller of release.
	tooLate(s *slot, reply *wire.Msg)
	owes(s *slot) bool
	release(s *slot)
	owed(s *slot)
}

// bound refuses a call that is too long for its connection, and bounds the chunk for its reply.
func (r *requester) bound(s *slot) error {
	most := r.maxLong
	switch {
	case s.plan.Call == plan.CallInline:
	case s.terms.InlineOnly:
		return fmt.Errorf("%w: %d bytes, %d are allowed", errBackTooLong, s.plan.HeaderLen+s.plan.CallLen, s.terms.SendInline)
	case most > 0 && s.plan.CallLen > most:
		return fmt.Errorf("%w: %d bytes, %d are allowed", errBackTooLong, s.plan.CallLen, most)
	}
	if most > 0 {
		s.plan.ReplyLen = min(s.plan.ReplyLen, most)
	}
	return nil
}

// watch ends the connection if the sender is not done in time.
func (r *requester) watch(ctx context.Context, s *sender) {
	if r.stall != nil {
		r.stall.set(ctx, &s.deadline)
	}
}

// afterReceives does what is left to be done for slots once the receive buffer of the message in scratch has been posted
// again.
func (r *requester) afterReceives(wakeups []*slot, released int) {
	for _, s := range wakeups {
		s.wake()
	}
	share := credit.Abandoned
	if r.patient {
		share = credit.Live
	}
	for range released {
		r.credits.Release(share)
	}
}

// Err is why the connection has ended.
func (r *requester) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
