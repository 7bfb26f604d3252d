package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Defaults and bounds of DialerConfig.
const (
	defaultInline     = 4096
	maxConfigInline   = 64 * 1024
	maxCredits        = 16384
	defaultMaxPayload = 1 << 20
	defaultStallLimit = 5 * time.Second

	// DefaultCredits is how many outstanding calls are asked for.
	DefaultCredits         = 128
	defaultCallbackCredits = 16
	maxCallbackCredits     = 256

	// longMessages is how many of the longest messages can be outstanding.
	longMessages = 16
	// LongMessageBytes is the longest message; DefaultLongBytes hold 16.
	LongMessageBytes = defaultMaxPayload + requester.MaxHead
	DefaultLongBytes = longMessages * LongMessageBytes
	// readsOut is how many RDMA Reads a link has outstanding.
	readsOut = 16
	// readsIn is how many RDMA Reads the peer may have outstanding here.
	readsIn = 32
	// extraReceives are posted beyond one for each credit, for messages that
	// answer no call.
	extraReceives = 8
)

// Padding says when calls are sent as RDMA_MSGP.
type Padding = rfc5666.Padding

// DialerConfig says whom to connect to and how. Zero fields have defaults.
type DialerConfig struct {
	// Device is borrowed until Dialer.Close.
	Device verbs.Device
	Addr   netip.AddrPort
	// LocalAddr, when valid, is the address to connect from.
	LocalAddr netip.Addr
	// InlineSend and InlineRecv are the sizes of our inline buffers, from 1024
	// to 65536, in whole KiB (4096). The peer's may lower the thresholds.
	InlineSend, InlineRecv int
	// Credits is how many outstanding calls we ask for (128).
	Credits int
	// NoDDP forbids direct placement, as RPCSEC_GSS integrity must.
	NoDDP bool
	// Padding says when calls are sent as RDMA_MSGP, until a server refuses one.
	Padding Padding
	// TryVersion2 has links begin in version 2 of the protocol (the draft), and
	// go on in version 1 if the server does not have it.
	TryVersion2 bool
	// ReadReplies takes replies by read chunks and offers no other ones, for
	// servers of RFC 5666 that work so.
	ReadReplies bool
	// CCP has the Connection Configuration Protocol make the first call on each
	// connection (RFC 5666 section 6).
	CCP bool
	// Callbacks, when not nil, serves the calls that the server makes on our
	// connections (RFC 8167), as many at a time as CallbackCredits (16) on each.
	// It is borrowed until every link is closed.
	Callbacks       transport.Handler
	CallbackCredits int
	// MaxPayload bounds the payload bytes of one call each way (1 MiB).
	MaxPayload int
	// LongBytes bounds the memory for reply chunks and for calls that must be
	// made one piece (room for 16 of the longest).
	LongBytes int
	// StallLimit is how long the peer may take nothing off the wire, or an
	// invalidation of keys may take, before the connection is given up (5 s).
	StallLimit time.Duration
	// Log may be nil. It gets what a person should know.
	Log *slog.Logger
}

// inlineSize is that of inline buffers that are configured as n.
func inlineSize(n int) int {
	if n == 0 {
		n = defaultInline
	}
	return min(max(n, wire.MinInline), maxConfigInline) / 1024 * 1024
}

// LinkBytes is the most memory that a link registers with so many credits and
// inline buffers of the size configured, in either version and without
// callbacks.
func LinkBytes(credits, inline int) int {
	n := inlineSize(inline)
	return linkBytes(credits, n, max(n, wire.DefaultInline2)) + maxCtl
}

// CallbackBytes is what a link registers besides to serve so many calls of the server's.
func CallbackBytes(credits, inline int, tryVersion2 bool) int {
	n := inlineSize(inline)
	c := DialerConfig{InlineSend: n, InlineRecv: n, TryVersion2: tryVersion2, CallbackCredits: credits}
	return c.backBytes()
}

// linkBytes has a receive buffer for each posted receive and one more for each
// slot.
func linkBytes(credits, send, recv int) int {
	return credits*(requester.HeaderLen+send+requester.ScratchLen) + (2*credits+extraReceives)*recv
}

func (c *DialerConfig) setDefaults() {
	c.InlineSend, c.InlineRecv = inlineSize(c.InlineSend), inlineSize(c.InlineRecv)
	if c.Credits <= 0 {
		c.Credits = DefaultCredits
	}
	switch {
	case c.Callbacks == nil:
		c.CallbackCredits = 0
	case c.CallbackCredits <= 0:
		c.CallbackCredits = defaultCallbackCredits
	}
	c.CallbackCredits = min(c.CallbackCredits, maxCallbackCredits)
	c.Credits = max(1, min(c.Credits, maxCredits, c.Device.Caps().MaxQueue-extraReceives-c.CallbackCredits))
	c.Padding = c.Padding.Bounded()
	if c.MaxPayload <= 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.LongBytes <= 0 {
		c.LongBytes = longMessages * (c.MaxPayload + requester.MaxHead)
	}
	if c.StallLimit <= 0 {
		c.StallLimit = defaultStallLimit
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// receiveSize is the size of the receive buffers. In version 2 it is not less
// than the default (the draft, section 3.3).
func (c *DialerConfig) receiveSize() int {
	if c.TryVersion2 {
		return max(c.InlineRecv, wire.DefaultInline2)
	}
	return c.InlineRecv
}

// receives is how many receives a link has posted.
func (c *DialerConfig) receives() int { return c.Credits + extraReceives + c.CallbackCredits }

// backLong is the room for a long call of the server's, and for its reply:
// version 2 has them.
func (c *DialerConfig) backLong() int {
	if c.TryVersion2 {
		return maxBackLong
	}
	return 0
}

// dialer is the requester: it makes links to one server, and holds what
// outlives them.
type dialer struct {
	cfg   DialerConfig
	stats counters
	// noVersion2 is set once the server has turned out not to speak version 2.
	noVersion2 atomic.Bool
	// terms are those of the link whose terms changed last.
	terms atomic.Pointer[transport.Terms]
	// noPadding is set once the server has refused a padded call.
	noPadding atomic.Bool

	mu sync.Mutex
	// regions are the arenas given to Register.
	regions map[*mem.Arena]verbs.MemoryRegion
	// long is made by the first Dial, and longRegion its registration.
	long       *longbuf.Pool
	longAcct   longbuf.Account
	longRegion verbs.MemoryRegion
	closed     bool
}

// NewDialer returns a dialer for the server that cfg names.
func NewDialer(cfg DialerConfig) transport.Dialer {
	cfg.setDefaults()
	return &dialer{cfg: cfg, regions: map[*mem.Arena]verbs.MemoryRegion{}}
}

func (d *dialer) Register(a *mem.Arena) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return transport.ErrClosed
	}
	if d.regions[a] != nil {
		return fmt.Errorf("arena %d is registered already", a.ID())
	}
	r, err := d.cfg.Device.Register(a)
	if err != nil {
		return err
	}
	d.regions[a] = r
	return nil
}

func (d *dialer) Unregister(a *mem.Arena) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.regions[a]
	if r == nil {
		return fmt.Errorf("arena %d is not registered", a.ID())
	}
	delete(d.regions, a)
	return r.Close()
}

func (d *dialer) Limits() transport.Limits {
	l := transport.Limits{MaxSend: d.cfg.MaxPayload, MaxRecv: d.cfg.MaxPayload, Concurrent: d.cfg.Credits, First: 1}
	if n := int(d.stats.Grant.Load()); n > 0 {
		l.Concurrent = min(l.Concurrent, n)
	}
	return l
}

func (d *dialer) Stats() transport.Stats {
	s := d.stats.snapshot()
	if t := d.terms.Load(); t != nil {
		s.Terms = *t
	}
	return s
}

func (d *dialer) Dial(ctx context.Context) (transport.Link, error) {
	long, err := d.longBuffers()
	if err != nil {
		return nil, err
	}
	l, err := d.dial(ctx, long)
	if err != nil {
		d.stats.connectFails.Add(1)
		return nil, err
	}
	if d.cfg.CCP {
		if err := l.configure(ctx); err != nil {
			d.stats.connectFails.Add(1)
			return nil, errors.Join(fmt.Errorf("configuring the connection: %w", err), l.Close())
		}
	}
	d.stats.connects.Add(1)
	return l, nil
}

// longBuffers returns the pool of long buffers, made at the first need.
func (d *dialer) longBuffers() (*longbuf.Pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, transport.ErrClosed
	}
	if d.long != nil {
		return d.long, nil
	}
	a, err := mem.NewArena(d.cfg.LongBytes)
	if err != nil {
		return nil, err
	}
	r, err := d.cfg.Device.Register(a)
	if err != nil {
		_ = a.Close()
		return nil, err
	}
	d.long, d.longRegion = longbuf.New(a), r
	d.longAcct.Limit = d.long.Stats().Size
	return d.long, nil
}

func (d *dialer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, r := range d.regions {
		keep(r.Close())
	}
	clear(d.regions)
	if d.long != nil {
		keep(d.longRegion.Close())
		keep(d.long.Arena.Close())
	}
	return first
}

// counters are transport.Stats that may be added to from anywhere. Granted is the sum of the grants of living links.
type counters struct {
	requester.Counters
	connects, connectFails, callbacks atomic.Uint64
}

func (c *counters) snapshot() transport.Stats {
	return transport.Stats{
		Calls: c.Calls.Load(), Replies: c.Replies.Load(),
		Connects: c.connects.Load(), ConnectFails: c.connectFails.Load(),
		Resends: c.Resends.Load(),
		BadXIDs: c.BadXIDs.Load(), BadReplies: c.BadReplies.Load(),
		BytesSent: c.Sent.Load(), BytesReceived: c.Received.Load(),
		InlineCalls: c.InlineCalls.Load(), ReadChunks: c.ReadChunks.Load(), PositionZero: c.PositionZero.Load(),
		PaddedCalls: c.PaddedCalls.Load(), ReadReplies: c.ReadReplies.Load(),
		WriteChunks: c.WriteChunks.Load(), ReplyChunks: c.ReplyChunks.Load(), LongReplies: c.LongReplies.Load(),
		RemoteInvalidations: c.RemoteInvalidations.Load(), LocalInvalidations: c.LocalInvalidations.Load(),
		Credits: uint64(max(c.Granted.Load(), 0)), CreditWaits: c.CreditWaits.Load(),
		Callbacks: c.callbacks.Load(),
	}
}
