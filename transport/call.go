package transport

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Payload is bulk data in registered arenas, free of any device: it survives
// a reconnect onto another one.
type Payload = mem.Vec

// Call is one remote procedure call. Args and Result may run several times, for
// each transmission of the call, sequentially and never after Caller.Call has
// returned.
type Call struct {
	Prog, Vers, Proc uint32
	// CountAs is by which number the call is counted among those of its program; 0 means Proc. NFS
	// version 4 has one procedure for everything.
	CountAs uint32
	// Cred authenticates the call; nil means AuthNone.
	Cred Cred
	// NoDirect forbids direct placement for this call: Send and Recv travel in
	// the messages. A Cred with Protection implies it.
	NoDirect bool
	// Args encodes the arguments; w.Payload(i) marks where Send[i] stands.
	// nil means void.
	Args func(w *xdr.Writer)
	// Result decodes the results of an accepted, successful reply;
	// r.Payload(i) returns the number of bytes received in Recv[i]. Call returns
	// the error that Result returns, or that r holds, with fate Answered. nil
	// means void.
	Result func(r *xdr.Reader) error
	// Send and Recv are the data that may be placed directly, and only that
	// (RFC 8267), in the order of the stream. They must lie in arenas given to
	// Caller.Register.
	Send, Recv []Payload
	// ReplyMax bounds the reply's results in bytes, Recv data not counted. It
	// decides whether a reply chunk is offered, and must not be too low.
	ReplyMax int
	// Resent is set by Caller.Call when it sends the call once more after a transmission
	// of unknown fate: the server may carry it out twice, unless its duplicate request
	// cache knows it again. It is never cleared.
	Resent bool
	// Status, if set, is where Result puts the procedure's own status; one other than 0 is an
	// error to those who count calls.
	Status *uint32
	// Sent, if set, is called by the link, on the goroutine of Exchange, for a transmission
	// that no later one can overtake any more. It must not block.
	Sent func()
	// Timed has the link note when the reply came.
	Timed bool
	// Trip is what the link that carried the call last tells of it.
	Trip Trip
}

// Trip is one transmission of a call and its reply, as a link has seen it.
type Trip struct {
	// Sent is when the call was given to the network; zero if it was not.
	Sent time.Time
	// Replied is when the reply had come, if Call.Timed was set.
	Replied time.Time
	// BytesSent and BytesReceived are the lengths of the RPC messages, data that was
	// placed directly included, and the transport's own headers not.
	BytesSent, BytesReceived int
}

// Direct reports whether Send and Recv may be placed directly.
func (c *Call) Direct() bool { return !c.NoDirect && c.Protection() == nil }

// Counted is by which number the call is counted among those of its program.
func (c *Call) Counted() uint32 {
	if c.CountAs != 0 {
		return c.CountAs
	}
	return c.Proc
}

// Protection is that of the credential.
func (c *Call) Protection() Protection {
	if c.Cred == nil {
		return nil
	}
	return c.Cred.Protection()
}

// Caller makes calls on a server. Its methods may be called from any goroutine.
type Caller interface {
	// Call sends c and waits for its result. Errors are *Error unless Result
	// made them. When ctx ends first, Call returns once no peer can touch
	// c's payloads any more, with an error that wraps ctx.Err().
	Call(ctx context.Context, c *Call) error
	// Register makes an arena's segments usable as payloads. The arena is
	// borrowed until Unregister or Close.
	Register(a *mem.Arena) error
	Unregister(a *mem.Arena) error
	Limits() Limits
	// Stats is a snapshot of the counters since the Caller was made.
	Stats() Stats
	// Close ends every connection; outstanding calls fail.
	Close() error
}

// Limits bounds what callers may ask of a transport.
type Limits struct {
	// MaxSend and MaxRecv bound the payload bytes of one call each way.
	MaxSend, MaxRecv int
	// Concurrent is the number of outstanding calls that the transport can make
	// use of. It may change with what the server grants.
	Concurrent int
	// First is the number of calls that a new link carries until the first reply;
	// 0 if that is no less than later.
	First int
}

// Handler serves the programs of a server. Serve runs on a goroutine of the
// transport, several calls at once.
type Handler interface {
	// Serve decodes q.Args, carries out the procedure and encodes its results
	// into q.Reply. Its status becomes the accept_stat of the reply (RFC 5531
	// section 9); with one other than Success, what it encoded is dropped.
	Serve(ctx context.Context, q *Request) AcceptStat
}

// AcceptStat is accept_stat of RFC 5531 section 9.
type AcceptStat uint32

const (
	Success      AcceptStat = 0
	ProgUnavail  AcceptStat = 1
	ProgMismatch AcceptStat = 2
	ProcUnavail  AcceptStat = 3
	GarbageArgs  AcceptStat = 4
	SystemErr    AcceptStat = 5

	// NoReply is not sent: the transport ends the connection without a reply, as
	// if the server had crashed before it could send one.
	NoReply AcceptStat = 1<<32 - 1
	// TooWeak is not sent as accept_stat: the call is denied with AUTH_TOOWEAK.
	TooWeak AcceptStat = 1<<32 - 2
)

// Request is a call received by a server. Everything in it is borrowed until
// Serve returns, but for what Lease lends, which the transport takes back.
type Request struct {
	// Transport is "tcp" or the provider's name; Peer the client's address.
	Transport string
	Peer      string
	// Encrypted: it has come over TLS (RFC 9289).
	Encrypted        bool
	XID              uint32
	Prog, Vers, Proc uint32
	// Flavor is that of the credential, FlavorNone, FlavorSys or FlavorGSS; Sys is
	// what FlavorSys carries, but for the machine's name.
	Flavor uint32
	Sys    AuthSys
	// Security is the number by which MOUNT and SECINFO name how the call is
	// secured: Flavor, or with FlavorGSS a pseudo-flavor of mechanism and service
	// (RFC 2623 section 2.2.1). Principal is who calls, with FlavorGSS.
	Security  uint32
	Principal string
	// Low and High are the versions served, to be set with ProgMismatch.
	Low, High uint32
	// Args is positioned at the arguments; Args.Data returns items that may have
	// arrived as chunks.
	Args *xdr.Reader
	// Reply takes the results. Payloads that AddPayload has added may be marked in
	// it.
	Reply *xdr.Writer
	// Lease lends n bytes of memory for a payload of the reply. The transport takes
	// it back when the reply has been sent.
	Lease func(n int) (mem.Seg, error)
	// Back makes calls on the client over the connection of this call; nil if
	// there is no backward direction.
	Back Backchannel
	// AddPayload makes v a payload of the reply and returns its index for
	// Reply.Payload. v must be (part of) what Lease lent.
	AddPayload func(v Payload) int
}

// Subject is the key of a context's value that names what its calls are about, for logs: a func() string.
type Subject struct{}
