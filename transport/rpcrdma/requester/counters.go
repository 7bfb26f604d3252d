package requester

import (
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
)

// Counters are those of transport.Stats that a requester counts. More than one may count with the same.
type Counters struct {
	Calls, Replies                          atomic.Uint64
	BadXIDs, BadReplies                     atomic.Uint64
	Sent, Received                          atomic.Uint64 // bytes
	InlineCalls, ReadChunks, PositionZero   atomic.Uint64
	PaddedCalls, ReadReplies                atomic.Uint64
	WriteChunks, ReplyChunks, LongReplies   atomic.Uint64
	RemoteInvalidations, LocalInvalidations atomic.Uint64
	CreditWaits, Resends                    atomic.Uint64
	// Granted is the sum of what grants have changed.
	Granted atomic.Int64
	// Grant is the one that has changed last.
	Grant atomic.Int64
}

// called adds the call just sent in s.
func (c *Counters) called(s *slot) {
	c.Calls.Add(1)
	c.Sent.Add(uint64(s.plan.HeaderLen + s.plan.CallLen))
	switch s.plan.Call {
	case plan.CallInline:
		c.InlineCalls.Add(1)
		if s.plan.Padded {
			c.PaddedCalls.Add(1)
		}
	case plan.CallReadChunk:
		c.ReadChunks.Add(1)
	case plan.CallPositionZero:
		c.PositionZero.Add(1)
	}
	switch s.plan.Reply {
	case plan.ReplyWriteList:
		c.WriteChunks.Add(1)
	case plan.ReplyChunk:
		c.ReplyChunks.Add(1)
	}
}
