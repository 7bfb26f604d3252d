package transport

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Link is one live connection to a server. Its methods may be called from any
// goroutine.
type Link interface {
	// Exchange sends c under xid and waits for the result, as Caller.Call does,
	// but once, on this connection. It waits for a credit or for room to send
	// until ctx ends. When the connection is lost the error's Fate is NotSent or
	// Unknown, and Done is closed.
	Exchange(ctx context.Context, xid uint32, c *Call) error
	// ExchangeOverdue is Exchange for a call to which the server has not replied
	// on another link, and may not on this one. If the number of outstanding calls
	// is limited, such calls may not use all of it.
	ExchangeOverdue(ctx context.Context, xid uint32, c *Call) error
	// Done is closed when the connection is lost or closed; Err returns why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection; outstanding exchanges fail. It returns when no
	// goroutine of the link is running and no payload is accessed any more.
	Close() error
}

// Stalling is a Link that notices when nothing gets through to the server. Another
// connection may get through then, and earlier than this one once the network is
// back.
type Stalling interface {
	// Stalled returns why the link is stalled, or nil. It does not block.
	Stalled() error
}

// Dialer makes links to one server.
type Dialer interface {
	// Dial connects. ctx bounds the set-up only.
	Dial(ctx context.Context) (Link, error)
	// Register and Unregister are as in Caller; they hold for all links.
	Register(a *mem.Arena) error
	Unregister(a *mem.Arena) error
	Limits() Limits
	// Stats sums over all links made, living and dead.
	Stats() Stats
	// Close releases the resources of the dialer. Its links must be closed.
	Close() error
}

// Stats are the counters of a transport. Those that it has no use for stay zero.
type Stats struct {
	Calls         uint64 `json:"calls"`
	Replies       uint64 `json:"replies"`
	Resends       uint64 `json:"resends"`
	Timeouts      uint64 `json:"timeouts"`
	Connects      uint64 `json:"connects"`
	ConnectFails  uint64 `json:"connect_fails"`
	BadXIDs       uint64 `json:"bad_xids"`
	BadReplies    uint64 `json:"bad_replies"`
	BytesSent     uint64 `json:"bytes_sent"`
	BytesReceived uint64 `json:"bytes_received"`

	// How calls were sent (RFC 8166 section 3.4): everything inline, with read
	// chunks, or as a Position-Zero read chunk; and how their replies could come:
	// into write chunks, or into a reply chunk.
	InlineCalls  uint64 `json:"inline_calls"`
	ReadChunks   uint64 `json:"read_chunks"`
	PositionZero uint64 `json:"position_zero"`
	// PaddedCalls counts the inline calls that were padded to align their payload
	// (RFC 5666 section 3.9).
	PaddedCalls uint64 `json:"padded_calls"`
	WriteChunks uint64 `json:"write_chunks"`
	ReplyChunks uint64 `json:"reply_chunks"`
	// LongReplies counts the reply chunks that the server used.
	LongReplies uint64 `json:"long_replies"`
	// ReadReplies counts the replies by read chunks (RFC 5666 section 3.8).
	ReadReplies uint64 `json:"read_replies"`
	// RemoteInvalidations and LocalInvalidations count keys that the peer, and this
	// end, invalidated.
	RemoteInvalidations uint64 `json:"remote_invalidations"`
	LocalInvalidations  uint64 `json:"local_invalidations"`
	// Credits is the current grant; CreditWaits counts the calls that waited for a
	// credit.
	Credits     uint64 `json:"credits"`
	CreditWaits uint64 `json:"credit_waits"`
	// Registrations counts the arenas registered so far, RegisteredBytes is the memory that is
	// registered now.
	Registrations   uint64 `json:"registrations"`
	RegisteredBytes uint64 `json:"registered_bytes"`
	// Callbacks counts the calls from the server that were served.
	Callbacks uint64 `json:"callbacks"`
	// Terms are those of the connection whose terms have changed last.
	Terms Terms `json:"terms"`
}

// Terms is what the two ends of an RDMA connection have agreed on. The zero Terms
// is that of other transports.
type Terms struct {
	// Version is that of RPC-over-RDMA.
	Version int `json:"version"`
	// InlineSend and InlineRecv are the inline thresholds of calls and replies.
	InlineSend int `json:"inline_send"`
	InlineRecv int `json:"inline_receive"`
	// What version 2 has besides: the properties in force, of this end and of
	// the peer.
	ReceiveSize     int    `json:"receive_size,omitempty"`
	PeerReceiveSize int    `json:"peer_receive_size,omitempty"`
	Backward        string `json:"backward,omitempty"`
	PeerBackward    string `json:"peer_backward,omitempty"`
}

// Add sums o into s. Credits add up over connections.
func (s *Stats) Add(o Stats) {
	s.Calls += o.Calls
	s.Replies += o.Replies
	s.Resends += o.Resends
	s.Timeouts += o.Timeouts
	s.Connects += o.Connects
	s.ConnectFails += o.ConnectFails
	s.BadXIDs += o.BadXIDs
	s.BadReplies += o.BadReplies
	s.BytesSent += o.BytesSent
	s.BytesReceived += o.BytesReceived
	s.InlineCalls += o.InlineCalls
	s.ReadChunks += o.ReadChunks
	s.PositionZero += o.PositionZero
	s.PaddedCalls += o.PaddedCalls
	s.WriteChunks += o.WriteChunks
	s.ReplyChunks += o.ReplyChunks
	s.LongReplies += o.LongReplies
	s.ReadReplies += o.ReadReplies
	s.RemoteInvalidations += o.RemoteInvalidations
	s.LocalInvalidations += o.LocalInvalidations
	s.Credits += o.Credits
	s.CreditWaits += o.CreditWaits
	s.Registrations += o.Registrations
	s.RegisteredBytes += o.RegisteredBytes
	s.Callbacks += o.Callbacks
	if o.Terms.Version != 0 {
		s.Terms = o.Terms
	}
}
