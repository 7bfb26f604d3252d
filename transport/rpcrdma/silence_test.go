package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestGrants checks after each grant that as many calls are outstanding as it
// allows, and no more.
func TestGrants(t *testing.T) {
	const requested = 8
	for _, c := range []struct {
		grants []uint32
		want   []int
	}{
		{[]uint32{4, 2, 0, 8, 1}, []int{4, 2, 1, 8, 1}},
		{[]uint32{0xffffffff, 9, 0}, []int{8, 8, 1}},
	} {
		together := make(chan int, 1)
		addr := startPeer(t, peerSizes(1024), func(p *peer) error {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Credits != requested {
				return fmt.Errorf("%d credits requested", q.Credits)
			}
			for i, g := range c.grants {
				if err := p.send(append(q.header(wire.ProcMsg, g, wire.Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
					return err
				}
				// As many calls must come without any of them being answered,
				// and then one more for each answer and not before.
				var qs []*peerCall
				for range c.want[i] {
					next, err := p.call()
					if err != nil {
						return err
					}
					qs = append(qs, next)
				}
				if p.pending() {
					return fmt.Errorf("more than %d calls under a grant of %d", c.want[i], g)
				}
				together <- len(qs)
				// All but the last are answered with a grant of one.
				for _, next := range qs[1:] {
					if err := p.send(append(next.header(wire.ProcMsg, 1, wire.Lists{}), rpcAccepted(next.XID, 5)...)); err != nil {
						return err
					}
				}
				q = qs[0]
			}
			if err := p.send(q.inline(5)); err != nil {
				return err
			}
			return answerAll(5)(p)
		})
		r := dialPeer(t, addr, func(c *DialerConfig) { c.Credits = requested })
		ctx := within(t, patience)
		var calls sync.WaitGroup
		for i := range 60 {
			calls.Go(func() {
				if err := r.Exchange(ctx, uint32(1000+i), pingCall(nil)); err != nil {
					t.Error(err)
				}
			})
		}
		for _, want := range c.want {
			select {
			case got := <-together:
				if got != want {
					t.Errorf("%d calls, want %d", got, want)
				}
			case <-ctx.Done():
				t.Fatalf("fewer than %d calls under way", want)
			}
		}
		calls.Wait()
		if s := r.d.Stats(); s.CreditWaits == 0 || s.Credits != requested {
			t.Errorf("statistics %+v", s)
		}
	}
}

// pending reports whether a message has come that nobody waited for. It asks for a
// moment only: what comes later is for other checks.
func (p *peer) pending() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	var wc [8]verbs.Completion
	n, _ := p.conn.Wait(ctx, wc[:])
	p.ready = append(p.ready, wc[:n]...)
	for _, c := range p.ready {
		if c.Op == verbs.OpRecv {
			return true
		}
	}
	return false
}

// TestSilence gives a call up, which must close its memory to the peer, keep
// its credit taken until the late reply, and leave the connection alive.
func TestSilence(t *testing.T) {
	for _, how := range []string{"read", "noddp read", "write", "inline write", "long call"} {
		t.Run(how, func(t *testing.T) {
			silent, speak := make(chan struct{}), make(chan struct{})
			addr := startPeer(t, peerSizes(4096), func(p *peer) error {
				q, err := p.call()
				if err != nil {
					return err
				}
				close(silent)
				<-speak
				if err := p.send(q.inline(5)); err != nil {
					return err
				}
				return answerAll(5)(p)
			})
			r := dialPeer(t, addr, func(c *DialerConfig) { c.NoDDP = how == "noddp read" })
			n := 0
			call := map[string]*transport.Call{
				"read":         readCall(mem.Vec{r.arena.Seg(0, 65536)}, &n),
				"noddp read":   readCall(mem.Vec{r.arena.Seg(0, 65536)}, &n),
				"write":        writeCall(mem.Vec{r.arena.Seg(0, 65536)}),
				"inline write": writeCall(mem.Vec{r.arena.Seg(0, 2048)}),
				"long call":    pingCall(nil),
			}[how]
			if how == "long call" {
				call.Args = longArgs(3000)
			}
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-silent
				cancel()
			}()
			wantFate(t, r.do(ctx, call), transport.Unknown, context.Canceled)
			u := r.Usage()
			if u.Outstanding != 1 || u.Free != r.d.cfg.Credits-1 {
				t.Errorf("%d calls under way", u.Outstanding)
			}
			if u.Keys != 0 {
				t.Errorf("%d keys left", u.Keys)
			}
			if r.d.long.Stats().Leases != 0 {
				t.Error("long buffer not returned")
			}
			// The only credit is still taken, until the reply.
			c := r.Credits()
			holds := func(used, forNobody int) bool {
				u := c.Usage()
				return u.Used == used && u.Abandoned == forNobody
			}
			if !holds(1, 1) {
				t.Error("the credit of the call was given back")
			}
			close(speak)
			eventually(t, "the credit of the late reply", func() bool { return holds(0, 0) })
			wantAlive(t, r)
		})
	}
}

// TestKeysInvalidAfterCall lets the peer use keys after the call is over: it must
// lose its connection and touch nothing.
func TestKeysInvalidAfterCall(t *testing.T) {
	for _, over := range []string{"answered", "given up"} {
		for _, access := range []string{"write", "read", "reply chunk"} {
			t.Run(access+" after the call was "+over, func(t *testing.T) {
				seen, now := make(chan struct{}), make(chan struct{})
				addr := startPeer(t, peerSizes(4096), func(p *peer) error {
					q, err := p.call()
					if err != nil {
						return err
					}
					if over == "answered" {
						if err := p.send(q.inline(0)); err != nil {
							return err
						}
					}
					close(seen)
					<-now
					switch access {
					case "write":
						_, err = p.write(q.Lists.Write[0], []byte("evil"))
						if err == nil {
							_, err = p.call() // nothing tells of a Write but the connection's end
						}
					case "reply chunk":
						_, err = p.write(q.Lists.Reply, []byte("evil"))
						if err == nil {
							_, err = p.call()
						}
					case "read":
						_, err = p.readAll(q.Lists.Read)
					}
					if err == nil {
						return errors.New("the key could still be used")
					}
					return err
				})
				r := dialPeer(t, addr, nil)
				n := 0
				call := readCall(mem.Vec{r.arena.Seg(0, 65536)}, &n)
				switch access {
				case "read":
					call = writeCall(mem.Vec{r.arena.Seg(0, 65536)})
				case "reply chunk":
					call = pingCall(nil)
					call.ReplyMax = 65536
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if over == "given up" {
					go func() {
						<-seen
						cancel()
					}()
				}
				err := r.do(ctx, call)
				if over == "given up" {
					wantFate(t, err, transport.Unknown, context.Canceled)
				} else if err != nil {
					t.Fatal(err)
				}
				close(now)
				select {
				case <-r.Done():
				case <-time.After(patience):
					t.Fatal("the connection goes on")
				}
				if bytes.Contains(r.arena.Bytes(), []byte("evil")) || bytes.Contains(r.d.long.Arena.Bytes(), []byte("evil")) {
					t.Error("memory was written after the call")
				}
			})
		}
	}
}

// TestForeignKeyInvalidated has the peer make another call's key invalid: both
// calls end, and neither payload stays open.
func TestForeignKeyInvalidated(t *testing.T) {
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		first, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(append(first.header(wire.ProcMsg, 16, wire.Lists{}), rpcAccepted(first.XID, 5)...)); err != nil {
			return err
		}
		a, err := p.call()
		if err != nil {
			return err
		}
		b, err := p.call()
		if err != nil {
			return err
		}
		if err := p.sendInvalidate(a.inline(0), b.Lists.Write[0][0].Handle); err != nil {
			return err
		}
		if err := p.sendInvalidate(b.inline(0), 12345); err != nil {
			return err
		}
		return answerAll(5)(p)
	})
	r := dialPeer(t, addr, nil)
	wantAlive(t, r)
	var calls sync.WaitGroup
	for i := range 2 {
		calls.Go(func() {
			n := 1
			err := r.Exchange(within(t, patience), uint32(i), readCall(mem.Vec{r.arena.Seg(i*65536, 65536)}, &n))
			// A key that never was may cost the connection, but no more.
			if err == nil && n != 0 {
				t.Errorf("%d bytes", n)
			}
		})
	}
	calls.Wait()
	if n := r.Usage().Keys; n > 0 && r.Err() == nil {
		t.Errorf("calls have %d keys left", n)
	}
}
