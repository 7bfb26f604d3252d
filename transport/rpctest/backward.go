package rpctest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// NewBackward is NewCaller for connections over which the server calls the client;
// callbacks serves those calls.
type NewBackward func(t *testing.T, h, callbacks transport.Handler) (c transport.Caller, cut func())

// backEnv is what a subtest of RunBackward works with: p serves the calls of the
// client, and back those of the server. Each call that p serves puts its
// Backchannel into seen.
type backEnv struct {
	*env
	back *program
	seen chan transport.Backchannel
}

// reporter serves as p does, after it has put the Backchannel into seen or, with
// nested set, made a call on the client.
type reporter struct {
	p      *program
	seen   chan transport.Backchannel
	nested func(ctx context.Context, b transport.Backchannel) error
}

func (h *reporter) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Back == nil {
		return transport.SystemErr
	}
	if h.nested != nil {
		if err := h.nested(ctx, q.Back); err != nil {
			return transport.SystemErr
		}
	} else {
		h.seen <- q.Back
	}
	return h.p.Serve(ctx, q)
}

// RunBackward is the suite for calls in the backward direction. Their arguments
// and results, payloads included, are short enough to travel inline.
func RunBackward(t *testing.T, newBackward NewBackward) {
	for _, s := range []struct {
		name string
		f    func(*backEnv)
	}{
		{"Shapes", backShapes},
		{"Refusals", backRefusals},
		{"BothWays", backBothWays},
		{"Cancelled", backCancelled},
		{"Cut", backCut},
	} {
		t.Run(s.name, func(t *testing.T) {
			b := &backEnv{back: newProgram(), seen: make(chan transport.Backchannel, 10_000)}
			run(t, func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
				return newBackward(t, &reporter{p: h.(*program), seen: b.seen}, b.back)
			}, func(e *env) {
				b.env = e
				s.f(b)
			})
		})
	}
	t.Run("FromServe", func(t *testing.T) {
		back := newProgram()
		run(t, func(t *testing.T, h transport.Handler) (transport.Caller, func()) {
			return newBackward(t, &reporter{p: h.(*program), nested: func(ctx context.Context, b transport.Backchannel) error {
				return echo(ctx, b, 100, 7)
			}}, back)
		}, func(e *env) { backFromServe(e, back) })
	})
}

// channel is the Backchannel of a connection that is up.
func (b *backEnv) channel() transport.Backchannel {
	b.Helper()
	if err := null(b.Context(), b.c); err != nil {
		b.Fatal(err)
	}
	return <-b.seen
}

// backSizes are those of payloads and opaque data that fit inline.
var backSizes = []int{0, 1, 3, 4, 100, 501, 600}

func backShapes(b *backEnv) {
	ch := b.channel()
	ctx := b.Context()
	for i, n := range backSizes {
		seed := uint32(2*n + i)
		b.check(echo(ctx, ch, n, seed), "echo of %d bytes", n)
		b.check(put(ctx, ch, b.wins[0], n, 1+i%3, seed), "%d bytes in", n)
		b.check(get(ctx, ch, b.wins[0], n, n, 1+i%3, seed), "%d bytes out", n)
		b.check(swap(ctx, ch, b.wins[0], b.wins[1], n, seed), "%d bytes both ways", n)
	}
	if n := b.back.count(); n != 4*len(backSizes) {
		b.Errorf("the client served %d calls", n)
	}
	if s := b.c.Stats(); s.Callbacks != uint64(4*len(backSizes)) || s.BadReplies+s.BadXIDs != 0 {
		b.Errorf("%+v", s)
	}
}

func backRefusals(b *backEnv) {
	ch := b.channel()
	for _, s := range []transport.AcceptStat{transport.ProgUnavail, transport.ProcUnavail, transport.GarbageArgs, transport.SystemErr} {
		c := newCall(procFail)
		c.Args = func(w *xdr.Writer) { w.Uint32(uint32(s)) }
		var te *transport.Error
		var refused *transport.RPCError
		if err := ch.Call(b.Context(), c); !errors.As(err, &te) || te.Fate != transport.Answered || !errors.As(err, &refused) || refused.Code != uint32(s) {
			b.Errorf("accept_stat %d: %v", s, err)
		}
	}
	b.check(null(b.Context(), ch), "null, afterwards")
}

// backBothWays has calls go both ways at once.
func backBothWays(b *backEnv) {
	const callers, calls = 16, 20
	ch := b.channel()
	wins := b.split(2 * callers)
	crowd(2*callers, func(i int) {
		for k := range calls {
			turn := uint32(i*calls + k)
			if i < callers {
				b.check(mixed(b.Context(), b.c, wins[i], turn), "caller %d, call %d", i, k)
				continue
			}
			n := int(turn*7919) % 600
			switch turn % 3 {
			case 0:
				b.check(put(b.Context(), ch, wins[i], n, 2, turn), "backward caller %d, call %d", i, k)
			case 1:
				b.check(get(b.Context(), ch, wins[i], n, n, 2, turn), "backward caller %d, call %d", i, k)
			default:
				b.check(echo(b.Context(), ch, n, turn), "backward caller %d, call %d", i, k)
			}
		}
	})
	if s := b.c.Stats(); s.Callbacks != callers*calls || s.BadReplies+s.BadXIDs != 0 {
		b.Errorf("%+v", s)
	}
}

// backFromServe has each of many calls call back before it is answered.
func backFromServe(e *env, back *program) {
	const callers, calls = 32, 5
	crowd(callers, func(i int) {
		for k := range calls {
			e.check(null(e.Context(), e.c), "caller %d, call %d", i, k)
		}
	})
	if n := back.count(); n != callers*calls {
		e.Errorf("the client served %d calls", n)
	}
}

// backCancelled cancels a call while the client delays its reply. After that nothing
// may change the call's memory.
func backCancelled(b *backEnv) {
	ch := b.channel()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	v := b.wins[0].vec(100, 2)
	var running sync.WaitGroup
	running.Go(func() {
		err := ch.Call(ctx, getCall(procHold, v, 100, 1))
		var te *transport.Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &te) || te.Fate != transport.Unknown {
			b.Errorf("cancelled: %v", err)
		}
	})
	<-b.back.arrived
	cancel()
	running.Wait()
	b.check(b.wins[0].intact(v, 0), "given up")
	close(b.back.release)
	for i := range 20 {
		b.check(echo(b.Context(), ch, 100, uint32(i)), "echo, afterwards")
	}
	b.check(b.wins[0].intact(v, 0), "given up, and answered since")
}

// backCut severs the connection while the client delays a reply. The next
// connection has another Backchannel.
func backCut(b *backEnv) {
	ch := b.channel()
	v := b.wins[0].vec(100, 1)
	res := make(chan error, 1)
	go func() { res <- ch.Call(b.Context(), getCall(procHold, v, 100, 1)) }()
	<-b.back.arrived
	select {
	case <-ch.Done():
		b.Error("the connection has ended before it was cut")
	default:
	}
	b.cut()
	var te *transport.Error
	if err := <-res; !errors.As(err, &te) || te.Fate != transport.Unknown {
		b.Errorf("cut: %v", err)
	}
	<-ch.Done()
	if err := null(b.Context(), ch); !errors.As(err, &te) || te.Fate != transport.NotSent {
		b.Errorf("after the cut: %v", err)
	}
	close(b.back.release)
	b.check(echo(b.Context(), b.channel(), 100, 3), "echo by the next connection")
}
