package rpcsecgss_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

var services = []rpcsecgss.Service{rpcsecgss.None, rpcsecgss.Integrity, rpcsecgss.Privacy}

// TestUsers: each user's calls are made under his own context, which there is one of for
// each link.
func TestUsers(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			g := newRig(t, rules{service: service})
			for i, uid := range []uint32{0, 1000, 1001, 0, 1000, 1001} {
				text := strings.Repeat("x", 1000*i)
				if err := g.caller.Call(t.Context(), echoCall(uid, text, service)); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if g.mech.begun(0) != 1 || g.mech.begun(1000) != 1 || g.mech.begun(1001) != 1 || g.server.Contexts() != 3 {
				t.Errorf("contexts: %v begun, %d at the server", g.mech.start, g.server.Contexts())
			}
			if err := g.caller.Close(); err != nil {
				t.Fatal(err)
			}
			if n := g.server.Contexts(); n != 0 {
				t.Errorf("%d contexts left at the server after the end of the link", n)
			}
		})
	}
}

// TestManyCalls: four links with 64 calls at once, and no connection is lost: no number that arrives is below the
// server's window. The server takes calls in the order of their arrival: one that is looked at late, while more are taken than
// the window has numbers, is lost whatever the client does.
func TestManyCalls(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			g := newRig(t, rules{service: service, nconnect: 4, concurrent: 1})
			var wg sync.WaitGroup
			for w := range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for n := range 150 {
						uid := uint32(w % 2)
						if err := g.caller.Call(t.Context(), echoCall(uid, fmt.Sprint(w, n), service)); err != nil {
							t.Error(err)
							return
						}
					}
				}()
			}
			wg.Wait()
			if s := g.caller.Stats(); s.Connects != 4 || s.Resends != 0 {
				t.Errorf("%d connections made, %d calls sent again", s.Connects, s.Resends)
			}
			for uid := range uint32(2) {
				if n := g.mech.begun(uid); n < 1 || n > 4 {
					t.Errorf("%d contexts of user %d", n, uid)
				}
			}
		})
	}
}

// TestKilledCalls: of 64 callers on four links, whose calls are given up while the server carries them out, others begin at once: no number
// that arrives is below the window, no connection is lost, and nobody waits for those who are gone.
func TestKilledCalls(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			var mu sync.Mutex
			kill := map[string]context.CancelFunc{}
			g := newRig(t, rules{service: service, nconnect: 4, concurrent: 1, handler: func(ctx context.Context, q *transport.Request) transport.AcceptStat {
				if q.Proc == 1 {
					again := *q.Args // a copy reads for itself
					mu.Lock()
					if end := kill[again.String(100)]; end != nil {
						end()
					}
					mu.Unlock()
				}
				return echo(ctx, q)
			}})
			var wg sync.WaitGroup
			for w := range 64 {
				wg.Go(func() {
					for n := range 60 {
						ctx, cancel := context.WithCancel(t.Context())
						text := fmt.Sprint(w, " ", n)
						if n%3 != 0 {
							mu.Lock()
							kill[text] = cancel
							mu.Unlock()
						}
						err := g.caller.Call(ctx, echoCall(uint32(w%2), text, service))
						if err != nil && (n%3 == 0 || !errors.Is(err, context.Canceled)) {
							t.Errorf("%s: %v", text, err)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			for uid := range uint32(2) {
				if n := g.mech.begun(uid); n < 1 || n > 4 {
					t.Errorf("%d contexts of user %d", n, uid)
				}
			}
			if s := g.caller.Stats(); s.Connects != 4 || s.Resends != 0 {
				t.Errorf("%d connections made, %d calls sent again", s.Connects, s.Resends)
			}
		})
	}
}

// TestServerForgets: a server that has lost its contexts, as by a restart, is given a new
// one, and the call again.
func TestServerForgets(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			var ran atomic.Int32
			g := newRig(t, rules{service: service, handler: func(ctx context.Context, q *transport.Request) transport.AcceptStat {
				if q.Proc == 1 {
					ran.Add(1)
				}
				return echo(ctx, q)
			}})
			for n := 1; n <= 3; n++ {
				if err := g.caller.Call(t.Context(), echoCall(7, "again", service)); err != nil {
					t.Fatal(err)
				}
				if g.mech.begun(7) != n || int(ran.Load()) != n {
					t.Errorf("round %d: %d contexts, %d calls carried out", n, g.mech.begun(7), ran.Load())
				}
				g.server.Forget()
			}
			if s := g.caller.Stats(); s.Connects != 1 {
				t.Errorf("%d connections", s.Connects)
			}
		})
	}
}

// TestServerForgetsMany: 64 calls at once of two users, each time under contexts that the server has forgotten: each user has one new context for
// all of his calls, and none fails.
func TestServerForgetsMany(t *testing.T) {
	g := newRig(t, rules{service: rpcsecgss.Privacy})
	const rounds = 8
	for round := range rounds {
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				if err := g.caller.Call(t.Context(), echoCall(uint32(w%2), fmt.Sprint(w), rpcsecgss.Privacy)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for uid := range uint32(2) {
			if n := g.mech.begun(uid); n != round+1 {
				t.Fatalf("round %d: %d contexts of user %d", round, n, uid)
			}
		}
		g.server.Forget()
	}
}

// TestServerForgetsAlways: one new context is made for a call, not one after the other.
func TestServerForgetsAlways(t *testing.T) {
	var g *rig
	g = newRig(t, rules{service: rpcsecgss.Integrity, hard: true, between: func(d transport.Dialer) transport.Dialer {
		return between{d, func(c *transport.Call) {
			if c.Proc == 1 {
				g.server.Forget()
			}
		}}
	}})
	err := g.caller.Call(t.Context(), echoCall(7, "x", rpcsecgss.Integrity))
	var refused *transport.RPCError
	if !errors.As(err, &refused) || refused.Code != rpcsecgss.CredProblem || g.mech.begun(7) != 2 {
		t.Errorf("%v after %d contexts", err, g.mech.begun(7))
	}
	if !errors.Is(err, transport.ErrAwaitCredential) {
		t.Errorf("%v: data of a hard mount is lost", err)
	}
}

// between is a dialer whose links show each call to f before it is sent.
type between struct {
	transport.Dialer
	f func(c *transport.Call)
}

func (b between) Dial(ctx context.Context) (transport.Link, error) {
	l, err := b.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return betweenLink{l, b.f}, nil
}

type betweenLink struct {
	transport.Link
	f func(c *transport.Call)
}

func (l betweenLink) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	l.f(c)
	return l.Link.Exchange(ctx, xid, c)
}

// TestNoTicket: a user without one fails, the others do not; it is asked again after a
// while, and not before.
func TestNoTicket(t *testing.T) {
	var clock atomic.Int64
	start := time.Now()
	clock.Store(start.UnixNano())
	g := newRig(t, rules{service: rpcsecgss.Privacy, now: func() time.Time { return time.Unix(0, clock.Load()) }})
	none := errors.New("no ticket")
	g.mech.set(func() { g.mech.fail[1000] = none })
	call := func() error { return g.caller.Call(t.Context(), echoCall(1000, "x", rpcsecgss.Privacy)) }
	for range 3 {
		if err := call(); !errors.Is(err, none) || !errors.Is(err, transport.ErrNoCredential) {
			t.Errorf("without a ticket: %v", err)
		}
	}
	if err := g.caller.Call(t.Context(), echoCall(0, "x", rpcsecgss.Privacy)); err != nil {
		t.Error(err)
	}
	g.mech.set(func() { delete(g.mech.fail, 1000) })
	clock.Add(int64(4 * time.Second))
	if err := call(); !errors.Is(err, none) || g.mech.begun(1000) != 1 {
		t.Errorf("soon after: %v, asked %d times", err, g.mech.begun(1000))
	}
	clock.Add(int64(time.Second))
	if err := call(); err != nil || g.mech.begun(1000) != 2 {
		t.Errorf("with a ticket: %v, asked %d times", err, g.mech.begun(1000))
	}
	// The server does not want it.
	g.server.Forget()
	g.mech.set(func() { g.mech.refuse = errors.New("no such user") })
	var refused *rpcsecgss.InitError
	if err := call(); !errors.As(err, &refused) || refused.Major == 0 || !errors.Is(err, transport.ErrNoCredential) || g.mech.forgot != 2 {
		t.Errorf("refused by the server: %v", err)
	}
}

// TestRenewal: before the ticket ends there is a new context, and the old one is
// destroyed when no call uses it any more; the ticket's end stops calls.
func TestRenewal(t *testing.T) {
	var clock atomic.Int64
	start := time.Now()
	clock.Store(start.UnixNano())
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	g := newRig(t, rules{service: rpcsecgss.Integrity, now: func() time.Time { return time.Unix(0, clock.Load()) },
		handler: func(ctx context.Context, q *transport.Request) transport.AcceptStat {
			if q.Proc == 2 {
				held <- struct{}{}
				<-hold
				return transport.Success
			}
			return echo(ctx, q)
		}})
	call := func() error { return g.caller.Call(t.Context(), echoCall(5, "x", rpcsecgss.Integrity)) }
	check := func(begun, there int) {
		t.Helper()
		if err := call(); err != nil {
			t.Fatal(err)
		}
		if g.mech.begun(5) != begun || g.server.Contexts() != there {
			t.Fatalf("%d contexts begun, %d at the server; want %d and %d", g.mech.begun(5), g.server.Contexts(), begun, there)
		}
	}
	check(1, 1)
	clock.Add(int64(50 * time.Minute))
	check(1, 1)

	long := make(chan error, 1)
	go func() {
		long <- g.caller.Call(t.Context(), &transport.Call{Prog: 400123, Vers: 1, Proc: 2, Cred: &transport.AuthSys{UID: 5}})
	}()
	<-held
	clock.Add(int64(6 * time.Minute))
	check(2, 2)
	close(hold)
	if err := <-long; err != nil {
		t.Fatal(err)
	}
	// Nothing can be awaited here but the server's view.
	for deadline := time.Now().Add(10 * time.Second); g.server.Contexts() != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the old context is not destroyed")
		}
		time.Sleep(time.Millisecond)
	}

	// No new ticket: the context is used to its end, and not longer.
	g.mech.set(func() { g.mech.fail[5] = errors.New("no ticket") })
	clock.Store(start.Add(56 * time.Minute).UnixNano())
	check(2, 1)
	clock.Store(start.Add(57 * time.Hour).UnixNano())
	if err := call(); !errors.Is(err, transport.ErrNoCredential) {
		t.Errorf("after the end: %v", err)
	}
}

// TestCancelledWhileMaking: who makes the context is killed; another call makes it.
func TestCancelledWhileMaking(t *testing.T) {
	arrived, answer := make(chan struct{}, 8), make(chan struct{})
	g := newRig(t, rules{service: rpcsecgss.None, wrap: func(h transport.Handler) transport.Handler {
		return slowInit{h.(*rpcsecgss.Server), arrived, answer}
	}})
	ctx, kill := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- g.caller.Call(ctx, echoCall(3, "x", rpcsecgss.None)) }()
	<-arrived
	go func() { second <- g.caller.Call(t.Context(), echoCall(3, "y", rpcsecgss.None)) }()
	kill()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
	close(answer)
	if err := <-second; err != nil {
		t.Errorf("the other: %v", err)
	}
}

// TestNotDecorated: calls without a user travel as they are.
func TestNotDecorated(t *testing.T) {
	g := newRig(t, rules{service: rpcsecgss.Privacy, handler: func(_ context.Context, q *transport.Request) transport.AcceptStat {
		q.Reply.Uint32(q.Flavor)
		return transport.Success
	}})
	var flavor uint32
	c := &transport.Call{Prog: 1, Vers: 1, ReplyMax: 4, Result: func(r *xdr.Reader) error { flavor = r.Uint32(); return r.End() }}
	if err := g.caller.Call(t.Context(), c); err != nil || flavor != transport.FlavorNone || g.server.Contexts() != 0 {
		t.Errorf("flavor %d, %v", flavor, err)
	}
}

// TestTokenGivenAgain: a server that closes the connection while it makes up its mind is
// given the same token over the next one, but not without end.
func TestTokenGivenAgain(t *testing.T) {
	for lost, tokens := range map[int]int{1: 1, 4: 1, 5: 2} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			var seen []string
			left := lost
			g := newRig(t, rules{service: rpcsecgss.Integrity, wrap: func(h transport.Handler) transport.Handler {
				return losesInit{h.(*rpcsecgss.Server), &left, &seen}
			}})
			if err := g.caller.Call(t.Context(), echoCall(9, "x", rpcsecgss.Integrity)); err != nil {
				t.Fatal(err)
			}
			distinct := map[string]bool{}
			for _, s := range seen {
				distinct[s] = true
			}
			if len(seen) != lost+1 || len(distinct) != tokens || g.mech.begun(9) != tokens {
				t.Errorf("%d tokens sent, %d of them distinct, want %d and %d", len(seen), len(distinct), lost+1, tokens)
			}
		})
	}
}

// TestTokenTakenForReplay: a server that has accepted a token and lost the connection before it could say so, and that takes the token for a
// replay the next time, is given another at once: the call does not fail.
func TestTokenTakenForReplay(t *testing.T) {
	lost := errors.New("lost")
	m := &lossy{}
	g := newRig(t, rules{service: rpcsecgss.Integrity, between: func(d transport.Dialer) transport.Dialer { m.Dialer = d; return m }})
	g.mech.seen = map[string]bool{}
	m.err = &transport.Error{Fate: transport.Unknown, Err: lost}
	l, err := g.dialer.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Exchange(t.Context(), 1, echoCall(9, "x", rpcsecgss.Integrity)); !errors.Is(err, lost) {
		t.Fatalf("%v, want that the answer is lost", err)
	}
	if err := l.Exchange(t.Context(), 2, echoCall(9, "x", rpcsecgss.Integrity)); err != nil {
		t.Error(err)
	}
	if n := g.mech.begun(9); n != 2 {
		t.Errorf("%d tokens were made, want 2", n)
	}
	// One that is refused though it is new is followed by one other.
	g.mech.set(func() { g.mech.refuse = errors.New("no") })
	if err := l.Exchange(t.Context(), 3, echoCall(10, "x", rpcsecgss.Integrity)); !errors.Is(err, transport.ErrNoCredential) || g.mech.begun(10) != 2 {
		t.Errorf("%v after %d tokens", err, g.mech.begun(10))
	}
}

// TestServerHasNewKeys: a server that was given other keys refuses what tickets of before have made: other tickets are got for the call
// that finds that out, which does not fail.
func TestServerHasNewKeys(t *testing.T) {
	g := newRig(t, rules{service: rpcsecgss.Integrity})
	g.mech.rekeyed = true
	if err := g.caller.Call(t.Context(), echoCall(9, "x", rpcsecgss.Integrity)); err != nil {
		t.Error(err)
	}
	if g.mech.begun(9) != 2 || g.mech.forgot != 1 {
		t.Errorf("%d tokens, and tickets were dropped %d times", g.mech.begun(9), g.mech.forgot)
	}
}

// lossy makes links of which the first call is carried out, and its answer lost for err.
type lossy struct {
	transport.Dialer
	err error
}

func (m *lossy) Dial(ctx context.Context) (transport.Link, error) {
	l, err := m.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &lossyLink{l, m}, nil
}

type lossyLink struct {
	transport.Link
	m *lossy
}

func (l *lossyLink) Exchange(ctx context.Context, xid uint32, c *transport.Call) error {
	err := l.Link.Exchange(ctx, xid, c)
	if lost := l.m.err; lost != nil {
		l.m.err = nil
		return lost
	}
	return err
}
