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
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// answersFirst answers the first call with what reply makes of it and all others well.
func answersFirst(reply func(q *peerCall) []byte) func(p *peer) error {
	return func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(reply(q)); err != nil {
			return err
		}
		return answerAll(5)(p)
	}
}

// wantAlive makes a call that must succeed.
func wantAlive(t *testing.T, r *rig) {
	t.Helper()
	var got uint32
	if err := r.do(within(t, patience), pingCall(&got)); err != nil || got != 5 {
		t.Errorf("the next call: %d, %v", got, err)
	}
}

// withLength is chunk c with one length changed.
func withLength(c Chunk, i int, n uint32) Chunk {
	c = append(Chunk{}, c...)
	c[i].Length = n
	return c
}

// TestBadReplies answers calls with replies that must fail the call and leave
// the connection as it was.
func TestBadReplies(t *testing.T) {
	msg := func(q *peerCall, l Lists, results ...uint32) []byte {
		return append(q.header(Msg, 16, l), rpcAccepted(q.XID, results...)...)
	}
	null := func(a *mem.Arena) *transport.Call { return pingCall(nil) }
	read := func(a *mem.Arena) *transport.Call {
		n := 0
		return readCall(mem.Vec{a.Seg(0, 8192), a.Seg(16384, 8192)}, &n)
	}
	list := func(a *mem.Arena) *transport.Call {
		c := pingCall(nil)
		c.ReplyMax = 10000
		return c
	}
	seg := Segment{Handle: 1, Length: 4, Offset: 4}
	for _, c := range []struct {
		name  string
		call  func(a *mem.Arena) *transport.Call
		reply func(q *peerCall) []byte
	}{
		{"ERR_VERS", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 1, 2, 3) }},
		{"ERR_CHUNK", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 2) }},
		{"ERR_CHUNK for a read", read, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 2) }},
		{"unknown error", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 3, 0, 0) }},
		{"version 2", null, func(q *peerCall) []byte { return xdrWords(q.XID, 2, 16, 0, 0, 0, 0) }},
		{"unknown procedure", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 9, 0, 0, 0) }},
		{"truncated list", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0, 1, 2, 9, 9) }},
		{"absurd list", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0, 1, 0xfffffff0, 9, 9) }},
		{"long reply without chunks", null, func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 1, 0, 0, 0) }},
		{"read list", null, func(q *peerCall) []byte {
			return msg(q, Lists{Read: []ReadSegment{{Position: 4, Segment: seg}}}, 5)
		}},
		{"write list not offered", null, func(q *peerCall) []byte { return msg(q, Lists{Write: []Chunk{{seg}}}, 5) }},
		{"reply chunk not offered", null, func(q *peerCall) []byte { return msg(q, Lists{Reply: Chunk{seg}}, 5) }},
		{"long reply not offered", null, func(q *peerCall) []byte { return q.header(NoMsg, 16, Lists{Reply: Chunk{seg}}) }},
		{"no message", null, func(q *peerCall) []byte { return q.header(Msg, 16, Lists{}) }},
		{"half a message", null, func(q *peerCall) []byte { return msg(q, Lists{})[:28+12] }},
		{"message to another call", null, func(q *peerCall) []byte {
			return append(q.header(Msg, 16, Lists{}), rpcAccepted(q.XID+1, 5)...)
		}},
		{"message of no direction", null, func(q *peerCall) []byte {
			return append(q.header(Msg, 16, Lists{}), xdrWords(q.XID, 2, 0, 0, 0, 0, 5)...)
		}},
		{"no results", null, func(q *peerCall) []byte { return msg(q, Lists{}) }},
		{"results too long", null, func(q *peerCall) []byte { return msg(q, Lists{}, 5, 5) }},
		{"absurd verifier", null, func(q *peerCall) []byte {
			return append(q.header(Msg, 16, Lists{}), xdrWords(q.XID, 1, 0, 0, 0xffffffff, 0)...)
		}},

		{"two write chunks for one", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{q.Lists.Write[0], q.Lists.Write[0]}}, 16384)
		}},
		{"a segment too few", read, func(q *peerCall) []byte { return msg(q, Lists{Write: []Chunk{q.Lists.Write[0][:1]}}, 8192) }},
		{"a segment too many", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{append(q.Lists.Write[0], seg)}}, 8192)
		}},
		{"an empty write chunk", read, func(q *peerCall) []byte { return msg(q, Lists{Write: []Chunk{{}}}, 0) }},
		{"a segment longer than offered", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{withLength(q.Lists.Write[0], 1, 8193)}}, 16385)
		}},
		{"a segment of 4 GiB", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{withLength(q.Lists.Write[0], 0, 0xffffffff)}}, 8192)
		}},
		{"a hole", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{withLength(q.Lists.Write[0], 0, 8191)}}, 16383)
		}},
		{"more placed than returned", read, func(q *peerCall) []byte { return msg(q, Lists{Write: q.Lists.Write}, 100) }},
		{"less placed than returned", read, func(q *peerCall) []byte {
			return msg(q, Lists{Write: []Chunk{withLength(withLength(q.Lists.Write[0], 1, 0), 0, 100)}}, 8192)
		}},
		{"more returned than asked for", read, func(q *peerCall) []byte { return msg(q, Lists{Write: q.Lists.Write}, 16385) }},
		{"absurd length inline", read, func(q *peerCall) []byte { return msg(q, Lists{}, 0xffffffff) }},
		{"reply chunk for write chunk", read, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Reply: q.Lists.Write[0]})
		}},

		{"empty long reply", list, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Reply: withLength(q.Lists.Reply, 0, 0)})
		}},
		{"long reply longer than offered", list, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Reply: withLength(q.Lists.Reply, 0, q.Lists.Reply[0].Length+1)})
		}},
		{"long reply in two segments", list, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Reply: append(q.Lists.Reply, seg)})
		}},
		{"long reply of what was there before", list, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Reply: q.Lists.Reply})
		}},
		{"long reply in the write list", list, func(q *peerCall) []byte {
			return q.header(NoMsg, 16, Lists{Write: []Chunk{q.Lists.Reply}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := dialPeer(t, startPeer(t, peerSizes(1024), answersFirst(c.reply)), nil)
			wantFate(t, r.do(within(t, patience), c.call(r.arena)), transport.Answered, transport.ErrProtocol)
			wantAlive(t, r)
			if n := len(r.d.long.free); n != 1 {
				t.Errorf("long buffers in %d extents", n)
			}
		})
	}
}

func TestReplyErrorTellsVersions(t *testing.T) {
	r := dialPeer(t, startPeer(t, nil, answersFirst(func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 1, 2, 3) })), nil)
	var re *ReplyError
	if err := r.do(within(t, patience), pingCall(nil)); !errors.As(err, &re) || *re != (ReplyError{ErrVers, 2, 3}) {
		t.Errorf("got %v", err)
	}
}

// TestMessagesDropped sends messages before and after the true reply that must
// change nothing.
func TestMessagesDropped(t *testing.T) {
	seg := Segment{Handle: 1, Length: 4, Offset: 4}
	for _, c := range []struct {
		name  string
		noise func(q *peerCall) []byte
	}{
		{"nothing", func(q *peerCall) []byte { return nil }},
		{"three bytes", func(q *peerCall) []byte { return []byte{1, 2, 3} }},
		{"half a header", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 0, 0) }},
		{"short unknown error", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 9) }},
		{"unknown XID", func(q *peerCall) []byte {
			return append((&peerCall{Header: Header{XID: 99}}).header(Msg, 1, Lists{}), rpcAccepted(99, 6)...)
		}},
		{"error to an unknown XID", func(q *peerCall) []byte { return xdrWords(99, 1, 16, 4, 2) }},
		{"RDMA_MSGP", func(q *peerCall) []byte {
			return append(xdrWords(q.XID, 1, 16, 2, 8, 8, 0, 0, 0), rpcAccepted(q.XID, 6)...)
		}},
		{"RDMA_DONE", func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 3, 0, 0, 0) }},
		{"a call back", func(q *peerCall) []byte {
			return append(q.header(Msg, 1, Lists{}), xdrWords(q.XID, 0, 2, 0x40000000, 1, 0, 0, 0, 0, 0)...)
		}},
		{"a long call back", func(q *peerCall) []byte {
			return q.header(NoMsg, 1, Lists{Read: []ReadSegment{{Segment: seg}}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := startPeer(t, peerSizes(1024), func(p *peer) error {
				for {
					q, err := p.call()
					if err != nil {
						return err
					}
					for _, b := range [][]byte{c.noise(q), q.inline(5), c.noise(q)} {
						if err := p.send(b); err != nil {
							return err
						}
					}
				}
			})
			r := dialPeer(t, addr, nil)
			for range 50 { // more often than there are receives to spare
				wantAlive(t, r)
			}
		})
	}
}

func TestDuplicateReplies(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			for _, v := range []uint32{5, 6, 7} {
				if err := p.send(q.inline(v)); err != nil {
					return err
				}
			}
		}
	})
	r := dialPeer(t, addr, nil)
	for range 50 {
		wantAlive(t, r)
	}
	if s := r.d.Stats(); s.Replies != 50 || s.BadXIDs < 90 {
		t.Errorf("statistics %+v", s)
	}
}

// TestGarbageEndsTheLink sends garbage: no more of it than there are receives.
func TestGarbageEndsTheLink(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		if _, err := p.call(); err != nil {
			return err
		}
		for range maxBad + 1 {
			if err := p.send(xdrWords(1, 2, 3, 4, 5, 6, 7, 8)); err != nil {
				return err
			}
		}
		return nil
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.Credits = 2 * maxBad })
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Unknown, transport.ErrProtocol)
	<-r.Done()
	if !errors.Is(r.Err(), transport.ErrProtocol) {
		t.Errorf("link ended with %v", r.Err())
	}
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.NotSent, transport.ErrProtocol)
}

// TestFlood sends without end, more than there can be receives for.
func TestFlood(t *testing.T) {
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		if _, err := p.call(); err != nil {
			return err
		}
		for {
			if err := p.send(xdrWords(1, 1, 3, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, nil)
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Unknown, nil)
	<-r.Done()
}

// TestGrants checks after each grant that as many calls are under way as it
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
				if err := p.send(append(q.header(Msg, g, Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
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
					if err := p.send(append(next.header(Msg, 1, Lists{}), rpcAccepted(next.XID, 5)...)); err != nil {
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

// pending tells if a message has come that nobody waited for. It asks for a
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
			r.mu.Lock()
			if len(r.slots) != 1 || len(r.free) != len(r.all)-1 {
				t.Errorf("%d calls under way", len(r.slots))
			}
			for _, s := range r.slots {
				if len(s.keys) != 0 {
					t.Errorf("%d keys left", len(s.keys))
				}
			}
			r.mu.Unlock()
			if r.d.long.leased != 0 {
				t.Error("long buffer not returned")
			}
			// The only credit is still taken.
			short, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
			wantFate(t, r.do(short, pingCall(nil)), transport.NotSent, context.DeadlineExceeded)
			stop()
			close(speak)
			wantAlive(t, r)
		})
	}
}

// TestKeysDieWithTheCall lets the peer use keys after the call is over: it must
// lose its connection and touch nothing.
func TestKeysDieWithTheCall(t *testing.T) {
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
				if bytes.Contains(r.arena.Bytes(), []byte("evil")) || bytes.Contains(r.d.long.arena.Bytes(), []byte("evil")) {
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
		if err := p.send(append(first.header(Msg, 16, Lists{}), rpcAccepted(first.XID, 5)...)); err != nil {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if len(s.keys) > 0 && r.err == nil {
			t.Errorf("call %#x has keys left", s.xid)
		}
	}
}

// TestHangUp closes the connection at each step of calls of each kind.
func TestHangUp(t *testing.T) {
	for _, step := range []string{"at once", "after the call", "after the data", "after the reply"} {
		for _, kind := range []string{"inline", "read", "write", "list"} {
			t.Run(kind+" "+step, func(t *testing.T) {
				addr := startPeer(t, peerSizes(1024), func(p *peer) error {
					defer p.conn.Close()
					if step == "at once" {
						return nil
					}
					q, err := p.call()
					if err != nil || step == "after the call" {
						return err
					}
					switch kind {
					case "read":
						_, err = p.write(q.Lists.Write[0], make([]byte, 100))
					case "write":
						_, err = p.readAll(q.Lists.Read)
					case "list":
						_, err = p.write(q.Lists.Reply, rpcAccepted(q.XID, 0))
					}
					if err != nil || step == "after the data" {
						return err
					}
					if err := p.send(q.inline(0)); err != nil {
						return err
					}
					_, err = p.wait(verbs.OpRecv) // the next call tells that the reply has come
					return err
				})
				r := dialPeer(t, addr, nil)
				n := 0
				call := map[string]*transport.Call{
					"inline": pingCall(nil), "list": pingCall(nil),
					"read":  readCall(mem.Vec{r.arena.Seg(0, 65536)}, &n),
					"write": writeCall(mem.Vec{r.arena.Seg(0, 65536)}),
				}[kind]
				if kind == "list" {
					call.ReplyMax = 65536
				}
				err := r.do(within(t, patience), call)
				if step == "after the reply" {
					if err != nil {
						t.Fatal(err)
					}
					err = r.do(within(t, patience), call)
				}
				var te *transport.Error
				var ce *verbs.ConnError
				if !errors.As(err, &te) || te.Fate == transport.Answered || !errors.As(err, &ce) {
					t.Fatalf("got %v", err)
				}
				<-r.Done()
				wantFate(t, r.do(within(t, patience), call), transport.NotSent, nil)
			})
		}
	}
}

// TestCloseUnderWay closes the link under calls that wait for a reply, for a
// credit and for a long buffer.
func TestCloseUnderWay(t *testing.T) {
	sent := make(chan struct{}, 64)
	addr := startPeer(t, peerSizes(1024), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(append(q.header(Msg, 4, Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
			return err
		}
		for {
			if _, err := p.call(); err != nil {
				return err
			}
			sent <- struct{}{}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.LongBytes = 3 * 8192 })
	wantAlive(t, r)
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			c := pingCall(nil)
			c.ReplyMax = 7000
			err := r.Exchange(context.Background(), uint32(i), c)
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate == transport.Answered || !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	}
	for range 3 { // the fourth credit's call waits for a long buffer
		<-sent
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}

// TestStalledPeer has a peer that takes nothing off the wire: calls end soon
// after their context, and the link with them.
func TestStalledPeer(t *testing.T) {
	addr := startPeer(t, peerSizes(65536), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		return p.send(append(q.header(Msg, 1000, Lists{}), rpcAccepted(q.XID, 5)...))
	})
	r := dialPeer(t, addr, func(c *DialerConfig) {
		c.Credits, c.InlineSend, c.InlineRecv, c.StallLimit = 512, 65536, 65536, 50*time.Millisecond
	})
	wantAlive(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup
	for i := range 512 {
		calls.Go(func() {
			err := r.Exchange(ctx, uint32(i), writeCall(mem.Vec{r.arena.Seg(0, 60000)}))
			var te *transport.Error
			if !errors.As(err, &te) || te.Fate == transport.Answered {
				t.Errorf("got %v", err)
			}
		})
	}
	calls.Wait()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Error("the link goes on")
	}
}

// shortQueues is a device that claims to have short queues.
type shortQueues struct {
	verbs.Device
	depth int
}

func (d shortQueues) Caps() verbs.Caps {
	c := d.Device.Caps()
	c.MaxQueue = d.depth
	return c
}

// TestSendQueueFull has the peer take nothing off the wire until a caller found
// the send queue full; all calls must be made when it goes on.
func TestSendQueueFull(t *testing.T) {
	full := make(chan struct{})
	addr := startPeer(t, peerSizes(65536), func(p *peer) error {
		q, err := p.call()
		if err != nil {
			return err
		}
		if err := p.send(append(q.header(Msg, 1000, Lists{}), rpcAccepted(q.XID, 5)...)); err != nil {
			return err
		}
		<-full
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			back := withLength(q.Lists.Reply, 0, 0)
			if err := p.send(append(q.header(Msg, 1000, Lists{Reply: back}), rpcAccepted(q.XID, 5)...)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) {
		c.Device = shortQueues{c.Device, 256}
		c.Credits, c.InlineSend, c.InlineRecv, c.StallLimit = 512, 65536, 1024, patience
		c.LongBytes = 64 << 20
	})
	pingIt := func() error { return r.do(within(t, patience), pingCall(nil)) }
	if err := pingIt(); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 248 {
		calls.Go(func() {
			c := writeCall(mem.Vec{r.arena.Seg(0, 60000)})
			c.ReplyMax = 4096
			if err := r.Exchange(within(t, patience), uint32(i), c); err != nil {
				t.Error(err)
			}
		})
	}
	untilTrue(t, &r.mu, func() bool { return r.room != nil })
	close(full)
	calls.Wait()
}
