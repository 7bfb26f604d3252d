package back

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
)

// Config is how callbacks are made. The zero value is of use.
type Config struct {
	// Timeout is how long a client may take to answer; 0 means 10 seconds.
	Timeout time.Duration
	// Pause is the time before a client that answered ErrDelay is asked again; 0 means
	// 100 milliseconds. It doubles up to a second.
	Pause time.Duration
	// Sent, if not nil, is told of each callback that is about to be sent.
	Sent func(id wire.ClientID, op wire.CBOp)
}

// Caller makes callbacks. Its methods may be called from any goroutine.
type Caller struct {
	cfg   Config
	state *state.Machine
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[wire.SessionID]*slots
}

// New makes a Caller, which is of no use before Start.
func New(cfg Config) *Caller {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Pause == 0 {
		cfg.Pause = 100 * time.Millisecond
	}
	b := &Caller{cfg: cfg, sessions: map[wire.SessionID]*slots{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// Start says whose clients are called. It comes before the Machine has any.
func (b *Caller) Start(m *state.Machine) { b.state = m }

// Close gives up all calls, and waits until they have ended.
func (b *Caller) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.wg.Wait()
}

// Tell is for state.Config.Callback.
func (b *Caller) Tell(cb state.Callback) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wg.Go(func() { b.runTell(cb) })
	}
}

// Go has a function run until Close, which cancels its context and waits for it. It reports false
// after Close.
func (b *Caller) Go(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wg.Go(func() { f(b.ctx) })
	}
	return !b.closed
}

// Ended is for state.Config.Ended.
func (b *Caller) Ended(id wire.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, id)
}

// runTell makes one callback. A recall is repeated for as long as the client asks for time, or
// does not know the delegation yet: the reply that grants it may be on its way.
func (b *Caller) runTell(cb state.Callback) {
	pause := b.cfg.Pause
	for {
		op := operation(&cb)
		if op == nil {
			return
		}
		st, err := b.call(b.ctx, cb.Client, cb.Session, op, cb.Referring)
		switch {
		case err != nil:
			// There is no back channel now. The Machine has it done again if that
			// matters.
			return
		case st == wire.ErrDelay:
		case cb.Kind == state.CallRecall && (st == wire.ErrBadStateid || st == nfsclient.ErrBadHandle) && b.state.Delegated(cb.Stateid):
		default:
			return
		}
		if nfsclient.Pause(b.ctx, pause) != nil {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// operation is what a callback says.
func operation(cb *state.Callback) wire.CBOperation {
	switch cb.Kind {
	case state.CallRecall:
		return &wire.CBRecall{Stateid: cb.Stateid, Handle: cb.File}
	case state.CallNotifyLock:
		return &wire.CBNotifyLock{Handle: cb.File, Owner: cb.Owner}
	case state.CallRecallSlot:
		return &wire.CBRecallSlot{Target: cb.Slot}
	}
	return nil
}

// ErrNoBackChannel: the client cannot be called now.
var ErrNoBackChannel = errors.New("no back channel")

// Do makes a callback of one operation and returns its status. If a connection fails, the next
// one is tried.
func (b *Caller) Do(ctx context.Context, id wire.ClientID, op wire.CBOperation) (wire.Status, error) {
	return b.call(ctx, id, wire.SessionID{}, op, nil)
}

// call is Do over a certain session, if it is not zero.
func (b *Caller) call(ctx context.Context, id wire.ClientID, only wire.SessionID, op wire.CBOperation, ref *state.Referring) (wire.Status, error) {
	last := ErrNoBackChannel
	for {
		ch, ok := b.state.BackChannel(id, only)
		if !ok {
			return 0, last
		}
		if b.cfg.Sent != nil {
			b.cfg.Sent(id, op.Op())
		}
		st, err := b.over(ctx, &ch, op, ref)
		if err == nil {
			return st, nil
		}
		if ctx.Err() != nil {
			return 0, err
		}
		var f *fault
		b.state.BackFailed(ch.Session, ch.Conn, errors.As(err, &f))
		last = fmt.Errorf("%w: %w", ErrNoBackChannel, err)
	}
}
