package session

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// Config says who the client is and what it asks of the session.
type Config struct {
	// Caller carries the compounds. It is borrowed until Close has returned.
	Caller transport.Caller
	// Binder, if set, is that whose Establish Caller calls for each new connection.
	Binder *Binder
	// Minor is the minor version, 1 or 2.
	Minor uint32
	// Owner is co_ownerid, unique for each client of the server and the same as
	// long as its state is to be found again. Verifier is co_verifier: another one
	// tells the server that the client has restarted and holds nothing any more.
	Owner    []byte
	Verifier nfsclient.Verifier
	// Machine authenticates the session's own calls, and those of a Call without
	// a credential. It stays the same as long as the owner has state.
	Machine transport.Cred
	// Host names the server in messages.
	Host string
	// RMax and WMax are the bytes of data that one READ and one WRITE are to carry;
	// 0 means 1 MiB. The server may grant less.
	RMax, WMax int
	// Slots is the number of requests outstanding at once; 0 means 64.
	Slots int
	// MaxOps bounds the operations of a compound, SEQUENCE counted; 0 means 16.
	MaxOps int
	// Cached is the length of the replies that the server is to keep for Call.Cache,
	// RPC header included; 0 means 1024. Servers grant fewer slots for longer ones.
	Cached int
	// Recover has the state of the client reclaimed, or tested; nil if there is never any.
	// Its calls go through Recovery.Do. It must not wait for anything that a caller
	// of Session.Do may hold: those wait for it.
	Recover func(ctx context.Context, r *Recovery) error
	// Callbacks, if set, serves what the server calls back over Caller's connections, which
	// Binder has bound. Without it there is no back channel, and the server gives no
	// delegations.
	Callbacks *callback.Service
	// Log may be nil.
	Log *slog.Logger
	// Clock is the time, for tests; nil means the real one.
	Clock Clock
}

// Clock is what a Session needs of time.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f once d has passed, as time.AfterFunc does.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a time.Timer made by AfterFunc.
type Timer interface {
	Stop() bool
}

// realClock goes on while the host is suspended, as the server's does: a lease that has run out in a laptop's sleep must not
// look as good as before. The monotonic clock of package time stands still meanwhile, and the wall's may be set.
type realClock struct{}

// booted is when the host was started, by the wall's clock at the start of this process.
var booted = time.Now().Round(0).Add(-sinceBoot())

func sinceBoot() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (realClock) Now() time.Time {
	d := sinceBoot()
	if d == 0 {
		return time.Now()
	}
	return booted.Add(d)
}

func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// What is asked for unless Config says otherwise.
const (
	defaultData   = 1 << 20
	defaultSlots  = 64
	defaultMaxOps = 16
	defaultCached = 1024
	// headroom is what a READ or WRITE takes beside its data: RPC header, credential
	// and the other operations of the compound.
	headroom = 4096
	// maxSlots bounds Config.Slots and what a server may make us keep.
	maxSlots = 1024
)

func (cf *Config) setDefaults() {
	for _, d := range []struct {
		v  *int
		to int
	}{{&cf.RMax, defaultData}, {&cf.WMax, defaultData}, {&cf.Slots, defaultSlots}, {&cf.MaxOps, defaultMaxOps}, {&cf.Cached, defaultCached}} {
		if *d.v <= 0 {
			*d.v = d.to
		}
	}
	cf.Slots = min(cf.Slots, maxSlots)
	if cf.Machine == nil {
		cf.Machine = transport.AuthNone{}
	}
	if cf.Log == nil {
		cf.Log = slog.New(slog.DiscardHandler)
	}
	if cf.Clock == nil {
		cf.Clock = realClock{}
	}
}

// Call is one compound. It may be used for one Do at a time.
type Call struct {
	// Ops are the operations, without SEQUENCE.
	Ops []wire.Operation
	// Cred authenticates the call; nil means Config.Machine.
	Cred transport.Cred
	// Cache is sa_cachethis: an operation must not be carried out twice, so that the
	// server keeps the reply for a retransmission. Without it, all operations may be.
	Cache bool
	// Wait, if set, bounds the wait for a slot until the compound is sent for the first time; the context of Do bounds the rest.
	Wait context.Context
	// Prepare, if set, runs each time before the compound is sent as a new request, and
	// not before retransmissions: it fills in stateids, which may have changed in a recovery.
	// Its error is that of Do. It must not block.
	Prepare func() error
	// Send and Recv are the payloads of the operations, as in transport.Call.
	Send, Recv []transport.Payload

	// Done operations have been answered, the last of them with Status, the others
	// with OK.
	Done   int
	Status wire.Status
	// Repeated: the compound was sent as a new request after one of which nobody knows
	// whether the server had carried it out.
	Repeated bool
}
