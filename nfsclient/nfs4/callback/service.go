package callback

import (
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Client is whom a server calls back. The methods return at once, without a call to the server: what is
// asked is done afterwards. They may be called from any goroutine.
type Client interface {
	// Recall asks for a delegation. ErrBadStateid and ErrBadHandle mean that there is none such.
	Recall(h nfsclient.Handle, sid wire.Stateid, truncate bool) wire.Status
	// GetAttr asks what the holder of a write delegation has made of the file.
	GetAttr(h nfsclient.Handle, want wire.Bitmap) (wire.Attrs, wire.Status)
	// RecallAny asks that no more than keep delegations of some types remain.
	RecallAny(keep uint32, types wire.Bitmap) wire.Status
	// RecallSlot bounds the slots of the fore channel, as sr_target_highest_slotid does.
	RecallSlot(target uint32) wire.Status
	// NotifyLock tells that a lock that was denied may be had now. It is a hint.
	NotifyLock(h nfsclient.Handle, owner wire.Owner) wire.Status
	// Offload tells that a copy has ended.
	Offload(o *wire.CBOffload) wire.Status
}

// Config is what a Service asks of the server. Zero fields have defaults.
type Config struct {
	// Inline is how long a message may be that the transport receives without chunks; 0 means
	// 4096 bytes, which is also the most. A larger channel would tell the server that long calls are served.
	Inline int
	// Slots is how many calls the server may make at once; 0 means 4.
	Slots int
}

const (
	defaultSlots  = 4
	maxInline     = 4096
	transportHead = 28 // of RPC-over-RDMA, before the message
	// maxOps bounds the operations of a callback, CB_SEQUENCE counted.
	maxOps = 4
)

// Service serves callbacks. It implements transport.Handler.
type Service struct {
	channel wire.Channel

	mu     sync.Mutex
	client Client // nil: nobody has anything that could be recalled
	// ses is the session, if known; creating: another is being created, whose callbacks may overtake the
	// reply that tells its ID.
	known, creating bool
	ses             Session
	slots           []slot
}

// Session is a session with a back channel of so many slots.
type Session struct {
	ID    wire.SessionID
	Minor uint32
	Slots int
}

// New makes a Service that belongs to no session yet.
func New(cf Config) *Service {
	if cf.Slots <= 0 {
		cf.Slots = defaultSlots
	}
	if cf.Inline <= 0 {
		cf.Inline = maxInline
	}
	size := uint32(min(cf.Inline, maxInline) - transportHead)
	return &Service{channel: wire.Channel{MaxRequest: size, MaxResponse: size, MaxOps: maxOps, MaxRequests: uint32(cf.Slots)}}
}

// Channel is what is asked for in CREATE_SESSION. Replies are kept all the same, as there are few and small ones.
func (s *Service) Channel() wire.Channel { return s.channel }

// Attach has c called back, in place of the Client before; nil for nobody. A call under way may still reach the
// one before.
func (s *Service) Attach(c Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = c
}

// Creating says that a session is being created.
func (s *Service) Creating() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating = true
}

// Created says which session was created, in place of the one before. Without slots it has no back channel.
func (s *Service) Created(ses Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating = false
	s.known, s.ses = ses.Slots > 0, ses
	s.slots = make([]slot, max(0, min(ses.Slots, int(s.channel.MaxRequests))))
}

// NotCreated says that no session came of Creating.
func (s *Service) NotCreated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating = false
}
