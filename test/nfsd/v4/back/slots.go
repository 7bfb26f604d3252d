package back

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

const (
	// maxSlots bounds the calls under way in a session.
	maxSlots = 16
	// callHead is what an RPC call has before CB_COMPOUND, at most.
	callHead = 10*4 + transport.MaxAuthBody
)

// slots is the slot table of a session's back channel. A slot belongs to who took it out of
// free.
type slots struct {
	all  []slot
	free chan int
}

type slot struct {
	seq uint32 // of the next call
	// unsure: a call under seq was sent, and its answer is not known.
	unsure bool
}

// slotsOf is the slot table of a session.
func (b *Caller) slotsOf(ch *state.BackChannel) *slots {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.sessions[ch.Session]
	if t == nil {
		n := int(min(ch.Channel.MaxRequests, maxSlots))
		t = &slots{all: make([]slot, n), free: make(chan int, n)}
		for i := range t.all {
			t.all[i].seq = 1
			t.free <- i
		}
		b.sessions[ch.Session] = t
	}
	return t
}

// fault is a status of CB_SEQUENCE that the session's back channel cannot recover from.
type fault struct{ status wire.Status }

func (f *fault) Error() string { return "CB_SEQUENCE: " + wire.StatusName(f.status) }

var errTooLong = errors.New("the callback is longer than the client takes")

// over makes a callback over one channel.
func (b *Caller) over(ctx context.Context, ch *state.BackChannel, op wire.CBOperation, ref *state.Referring) (wire.Status, error) {
	t := b.slotsOf(ch)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	var n int
	select {
	case n = <-t.free:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { t.free <- n }()
	s := &t.all[n]
	if s.unsure {
		if _, err := b.exchange(ctx, ch, s, n, nil, nil); err != nil {
			return 0, err
		}
	}
	return b.exchange(ctx, ch, s, n, op, ref)
}

// exchange makes one call in a slot, again as long as the client asks for that in its answer to
// CB_SEQUENCE. op is nil for CB_SEQUENCE alone.
func (b *Caller) exchange(ctx context.Context, ch *state.BackChannel, s *slot, n int, op wire.CBOperation, ref *state.Referring) (wire.Status, error) {
	seq := &wire.CBSequence{Session: ch.Session, SequenceID: s.seq, Slot: uint32(n), HighestSlot: uint32(n)}
	if ref != nil {
		seq.Referring = []wire.ReferringCalls{{Session: ref.Session, Calls: []wire.ReferringCall{{SequenceID: ref.Sequence, Slot: ref.Slot}}}}
	}
	c := &wire.CBCompound{Minor: ch.Minor, Ops: []wire.CBOperation{seq}}
	if op != nil {
		c.Ops = append(c.Ops, op)
	}
	for pause := b.cfg.Pause; ; pause = min(2*pause, time.Second) {
		if err := send(ctx, ch, c); err != nil {
			var e *transport.Error
			s.unsure = s.unsure || !errors.As(err, &e) || e.Fate != transport.NotSent
			return 0, err
		}
		st, _ := c.Outcome(0)
		if c.Done == 0 {
			return 0, &fault{c.Status}
		}
		switch st {
		case wire.OK:
			s.seq++
			s.unsure = false
			st, _ = c.Outcome(1)
			return st, nil
		case wire.ErrSeqFalseRetry, wire.ErrRetryUncachedRep:
			if op == nil { // the call before was carried out
				s.seq++
				s.unsure = false
				return wire.OK, nil
			}
			return 0, &fault{st}
		case wire.ErrDelay:
			if err := nfsclient.Pause(ctx, pause); err != nil {
				return 0, err
			}
		default:
			return 0, &fault{st}
		}
	}
}

// send makes the RPC call.
func send(ctx context.Context, ch *state.BackChannel, c *wire.CBCompound) error {
	var probe xdr.Writer
	c.AppendArgs(&probe)
	if n := probe.Len() + callHead; n > int(ch.Channel.MaxRequest) {
		return fmt.Errorf("%w: %d bytes of %d", errTooLong, n, ch.Channel.MaxRequest)
	}
	call := &transport.Call{
		Prog: ch.Program, Vers: wire.CallbackVersion, Proc: wire.ProcCBCompound, NoDirect: true,
		Args:     c.AppendArgs,
		Result:   func(r *xdr.Reader) error { c.ParseRes(r); return r.End() },
		ReplyMax: c.ReplyMax(),
	}
	if ch.Sec.Flavor == wire.AuthSys {
		call.Cred = &transport.AuthSys{Machine: ch.Sec.Machine, UID: ch.Sec.UID, GID: ch.Sec.GID, GIDs: ch.Sec.GIDs}
	}
	return ch.Conn.Call(ctx, call)
}
