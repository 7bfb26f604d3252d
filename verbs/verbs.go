package verbs

import (
	"context"
	"net/netip"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Caps says what a device can do. It is the only difference between
// providers that callers may act upon.
type Caps struct {
	// Provider is the name used in -o rdma=, Device the device's own.
	Provider, Device string
	// MaxSGE bounds the segments of one Send or Write; a Read has one.
	MaxSGE int
	// MaxQueue bounds the depth of a send or receive queue, in work requests.
	MaxQueue int
	// MaxMessage bounds one Send, Write or Read, in bytes.
	MaxMessage int
	// MaxPrivateData bounds a consumer's connection private data, in bytes.
	MaxPrivateData int
	// MaxReadDepth bounds the RDMA Reads a connection may have outstanding
	// in either direction.
	MaxReadDepth int
	// Pins: registered memory is locked in place, which the system limits
	// (RLIMIT_MEMLOCK).
	Pins bool
	// RemoteInvalidate: windows may be named in a peer's Send with Invalidate.
	RemoteInvalidate bool
	// RegionKeys: the device has no windows, and a key is that of a whole
	// registered arena, valid until the connection ends. Binding and
	// invalidating then change nothing: only the end of the connection revokes a
	// peer's access.
	RegionKeys bool
}

// Access is what a peer may do through a window.
type Access uint8

const (
	// RemoteRead lets the peer fetch the bytes by RDMA Read.
	RemoteRead Access = 1 << iota
	// RemoteWrite lets the peer place bytes by RDMA Write.
	RemoteWrite
)

// Device is an opened RDMA device; it owns one protection domain, in which all
// its regions, windows and connections live. Its methods may be called from
// any goroutine.
type Device interface {
	Caps() Caps
	// Register makes an arena usable as local memory of this device's
	// connections. It borrows the arena until MemoryRegion.Close. It gives a
	// peer no access, except with Caps.RegionKeys.
	Register(a *mem.Arena) (MemoryRegion, error)
	// Dial connects. It ends with ctx, with *RejectError when the peer
	// refuses, or with *ConnError.
	Dial(ctx context.Context, to netip.AddrPort, o ConnOptions) (Conn, error)
	// Listen takes connections at an address; port 0 chooses one.
	Listen(at netip.AddrPort, o ListenOptions) (Listener, error)
	// Close releases the device. Connections, listeners and regions must have
	// been closed before.
	Close() error
}

// MemoryRegion is an arena registered with a device.
type MemoryRegion interface {
	// Close withdraws the registration. No posted work request may still name
	// the arena.
	Close() error
}

// ConnOptions says what a connection needs.
type ConnOptions struct {
	// PrivateData is shown to the peer at connection set-up (RFC 8797 for
	// RPC-over-RDMA), at most Caps.MaxPrivateData bytes.
	PrivateData []byte
	// SendQueue and RecvQueue are queue depths in work requests.
	SendQueue, RecvQueue int
	// ReadsIn is how many RDMA Reads the peer may have outstanding here,
	// ReadsOut how many this side will have. Set-up may lower them.
	ReadsIn, ReadsOut int
	// LocalAddr, when valid, is the address to connect from.
	LocalAddr netip.Addr
	// Prepare, when not nil, is called with the new queue pair before the peer
	// can send on it, to post the first receives. An error ends the
	// set-up and is returned from it. A Dial that has to begin anew calls it
	// again, with another queue pair; the former, and what was posted, is gone.
	Prepare func(QP) error
}

// ListenOptions says how connections are taken.
type ListenOptions struct {
	// Backlog bounds connections set up by peers but not yet accepted.
	Backlog int
}

// Listener takes connections.
type Listener interface {
	// Accept waits for the next connection request.
	Accept(ctx context.Context) (Request, error)
	// Addr is where the listener listens, with the port in force.
	Addr() netip.AddrPort
	// Close stops listening and refuses requests that no Accept has returned. A
	// waiting Accept returns ErrClosed.
	Close() error
}

// Request is a peer that wants to connect. Exactly one of Accept and Reject
// must be called; one that fails has refused it all the same.
type Request interface {
	RemoteAddr() netip.AddrPort
	// PrivateData is what the peer showed; it is the caller's to keep. Some
	// networks add zeroes.
	PrivateData() []byte
	Accept(ctx context.Context, o ConnOptions) (Conn, error)
	Reject(private []byte) error
}

// Conn is an established connection: a queue pair and what set-up negotiated.
type Conn interface {
	QP
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// PrivateData is what the peer showed at set-up; nil when it showed none.
	// Some networks add zeroes.
	PrivateData() []byte
	// ReadsOut is the number of RDMA Reads this side may have outstanding;
	// posting more is allowed, they wait in the queue.
	ReadsOut() int
	// Close ends the connection at once, flushing nothing, and returns when
	// no posted or bound memory is touched any more. It may be called from
	// any goroutine, more than once, and makes Wait return ErrClosed.
	Close() error
}

// Stalling is a Conn that can report that nothing gets through to the peer,
// before it gives up itself.
type Stalling interface {
	// Stalled says why, or returns nil. It does not wait.
	Stalled() error
}

// QP is a queue pair.
type QP interface {
	// NewWindow makes a window that is not yet bound. Windows die with the
	// connection; Free gives one back earlier.
	NewWindow() (Window, error)
	// PostRecv appends receives. posted is how many were taken when err is
	// not nil. Each is consumed by one incoming Send.
	PostRecv(wr []RecvWR) (posted int, err error)
	// PostSend appends work requests to the send queue, in order. It may be
	// called from any goroutine; the requests of one call are not interleaved
	// with another's. It may block while the queue or the wire is full. An
	// error other than ErrQueueFull means that the connection is dead or that
	// request number posted breaks the rules of its Op.
	PostSend(wr []SendWR) (posted int, err error)
	// PostAndReap is PostSend, and then takes completions of the send queue
	// that are there by then, as many as wc has room for, in order, also of
	// requests that other goroutines posted. It may take none. Wait is neither
	// woken for those that it takes, nor returns them.
	PostAndReap(wr []SendWR, wc []Completion) (posted, reaped int, err error)
	// Wait fills wc with at least one completion, in the order of completion,
	// and returns how many. It returns ctx.Err() when ctx ends first, ErrClosed
	// after Close, and *ConnError once the connection is lost and every
	// completion before the loss has been returned: what was posted and not
	// completed by then never completes. It may be called from changing
	// goroutines, by one at a time; successive calls should have the same ctx,
	// since to watch another one costs more than most waits.
	Wait(ctx context.Context, wc []Completion) (int, error)
}

// Window is a key that can be bound to memory for a peer to reach.
type Window interface {
	// Next reserves the key that the next bind of this window, to s, makes
	// valid, so that it can be encoded into a message posted in the same batch.
	// It is never the key of the bind before, except with Caps.RegionKeys.
	Next(s mem.Seg) (rkey uint32)
	// Addr is the remote address of the first byte of s once bound.
	Addr(s mem.Seg) uint64
	// Free gives the window back; a bound one is invalidated first. It may wait
	// for work requests that name the window.
	Free()
}

// Op is what a send work request does.
type Op uint8

const (
	// OpSend sends Local to the peer's next receive.
	OpSend Op = iota + 1
	// OpSendInvalidate is OpSend that also invalidates RKey, a window of the
	// peer's, before the peer sees the receive complete.
	OpSendInvalidate
	// OpWrite places Local at RKey/Addr in the peer's memory.
	OpWrite
	// OpRead fetches from RKey/Addr into Local, which has one segment.
	OpRead
	// OpBind binds Window, which must not be bound, to Local (one segment) with
	// Access, under the key that Next reserved for that segment.
	OpBind
	// OpLocalInvalidate makes RKey, a bound window of this side, invalid.
	OpLocalInvalidate
	// OpRecv marks the completion of a receive; it is never posted.
	OpRecv
)

// SendWR is a work request for the send queue. The memory that Local names
// must stay as it is until the request, or one posted later, has completed.
type SendWR struct {
	// ID comes back in the completion.
	ID uint64
	Op Op
	// Signaled asks for a completion. Without it only a failure is reported,
	// by the connection's loss. OpRead is always signaled.
	Signaled bool
	Local    mem.Vec
	// RKey and Addr name memory: see the Ops.
	RKey   uint32
	Addr   uint64
	Window Window
	Access Access
}

// RecvWR is a receive. The connection owns the bytes of Buf until the
// completion, or the connection's end.
type RecvWR struct {
	ID  uint64
	Buf mem.Seg
}

// Completion reports one finished work request. All are successes: a failure
// ends the connection and is reported by Wait's error.
type Completion struct {
	ID uint64
	Op Op
	// Len is the number of bytes received, for OpRecv.
	Len int
	// InvalidatedKey is the window key that the peer's Send with Invalidate
	// named, when Invalidated is set. The window is no longer bound.
	Invalidated    bool
	InvalidatedKey uint32
}
