package rpcrdma

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// depot is a program whose procedures move data: 0 does nothing, 1 takes a
// payload and returns a checksum of it, 2 returns a payload of the length asked
// for, 3 takes n words and returns m words, 4 takes a payload and drops it, 5
// returns a payload that is not filled.
type depot struct{}

func (depot) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case 0:
		return transport.Success
	case 4: // a payload, unseen
		q.Args.Data(4 << 20)
	case 1:
		q.Reply.Uint32(sum(q.Args.Data(4 << 20)))
	case 2, 5:
		seed, n := q.Args.Uint32(), q.Args.Count(4<<20)
		s, err := q.Lease(n)
		if err != nil {
			return transport.SystemErr
		}
		if q.Proc == 2 {
			fill(s.Bytes(), seed)
		}
		q.Reply.Payload(q.AddPayload(transport.Payload{s}))
	case 3:
		m := q.Args.Count(1 << 20)
		n := q.Args.Count(1 << 20)
		var total uint32
		for range n {
			total += q.Args.Uint32()
		}
		q.Reply.Uint32(total)
		for i := range m {
			q.Reply.Uint32(uint32(i))
		}
	default:
		return transport.ProcUnavail
	}
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	return transport.Success
}

func sum(b []byte) uint32 {
	var n uint32
	for _, c := range b {
		n = n*31 + uint32(c)
	}
	return n
}

func fill(b []byte, seed uint32) {
	for i := range b {
		b[i] = byte(seed + uint32(i)*13)
	}
}

func depotPut(v mem.Vec, got *uint32) *transport.Call {
	return &transport.Call{Prog: 200000, Vers: 1, Proc: 1, Send: []transport.Payload{v}, ReplyMax: 4,
		Args:   func(w *xdr.Writer) { w.Payload(0) },
		Result: func(r *xdr.Reader) error { *got = r.Uint32(); return r.End() }}
}

func depotGet(v mem.Vec, seed uint32, n int, got *int) *transport.Call {
	return &transport.Call{Prog: 200000, Vers: 1, Proc: 2, Recv: []transport.Payload{v}, ReplyMax: 4,
		Args:   func(w *xdr.Writer) { w.Uint32(seed); w.Uint32(uint32(n)) },
		Result: func(r *xdr.Reader) error { *got = r.Payload(0); return r.End() }}
}

func depotWords(n, m int, got *uint32) *transport.Call {
	return &transport.Call{Prog: 200000, Vers: 1, Proc: 3, ReplyMax: 4 + 4*m,
		Args: func(w *xdr.Writer) {
			w.Uint32(uint32(m))
			w.Uint32(uint32(n))
			longArgs(n)(w)
		},
		Result: func(r *xdr.Reader) error {
			*got = r.Uint32()
			for i := range m {
				if v := r.Uint32(); v != uint32(i) {
					r.Fail("word %d is %d", i, v)
				}
			}
			return r.End()
		}}
}

// startDepot serves depot with the responder of this package.
func startDepot(t testing.TB, cfg ServerConfig) netip.AddrPort {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	ln, err := dev.Listen(netip.MustParseAddrPort("127.0.0.1:0"), verbs.ListenOptions{Backlog: 16})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := NewServer(dev, depot{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	runServe := func() { _ = srv.Serve(context.Background(), ln) }
	running.Go(runServe)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
		running.Wait()
		_ = ln.Close()
		if err := dev.Close(); err != nil {
			t.Errorf("server's device: %v", err)
		}
	})
	return ln.Addr()
}

// TestRequesterAndResponder moves data of all sizes and shapes between the two
// halves, many calls at once, with all combinations of thresholds.
func TestRequesterAndResponder(t *testing.T) {
	for _, inline := range []int{1024, 4096, 65536} {
		for _, noDDP := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline %d, noddp %v", inline, noDDP), func(t *testing.T) {
				addr := startDepot(t, ServerConfig{InlineIn: inline, InlineOut: inline, Credits: 8})
				r := dialPeer(t, addr, func(c *DialerConfig) {
					c.InlineSend, c.InlineRecv, c.NoDDP, c.Credits = inline, inline, noDDP, 32
					c.LongBytes = 5 << 20 // so that calls wait for it, too
				})
				testDepot(t, r)
				s := r.d.Stats()
				if s.Calls != s.Replies || s.BadReplies != 0 || s.BadXIDs != 0 {
					t.Errorf("statistics %+v", s)
				}
				if s.InlineCalls == 0 || s.PositionZero == 0 || s.ReplyChunks == 0 || s.LongReplies == 0 ||
					(s.ReadChunks == 0) != noDDP || (s.WriteChunks == 0) != noDDP {
					t.Errorf("statistics %+v", s)
				}
				if s.RemoteInvalidations == 0 || s.Credits != 8 {
					t.Errorf("statistics %+v", s)
				}
			})
		}
	}
}

func testDepot(t *testing.T, r *rig) {
	sizes := []int{0, 1, 3, 4, 800, 1000, 4000, 4001, 8192, 65536, 100003, 1 << 20}
	ctx := within(t, patience)
	var callers sync.WaitGroup
	for g := range 6 {
		callers.Go(func() {
			room := r.arena.Seg(g*(1<<20+65536), 1<<20+65536)
			for i, n := range sizes {
				xid := uint32(g<<16 | i<<4)
				v := mem.Vec{room.Slice(0, n)}
				if g%2 == 1 && n > 8 {
					v = mem.Vec{room.Slice(0, n/2), room.Slice(n/2+4096, n-n/2)}
				}
				want := make([]byte, n)
				fill(want, xid)
				v.CopyIn(0, want)
				var got uint32
				if err := r.Exchange(ctx, xid, depotPut(v, &got)); err != nil || got != sum(want) {
					t.Errorf("put %d: %#x, %v", n, got, err)
					return
				}
				var back int
				fill(want, xid+1)
				if err := r.Exchange(ctx, xid+1, depotGet(v, xid+1, n, &back)); err != nil || back != n {
					t.Errorf("get %d: %d, %v", n, back, err)
					return
				}
				b := make([]byte, n)
				v.CopyOut(0, b)
				if !bytes.Equal(b, want) {
					t.Errorf("get %d arrived damaged", n)
					return
				}
				in, out := min(n/4, 20000), min(n/5, 20000)
				if err := r.Exchange(ctx, xid+2, depotWords(in, out, &got)); err != nil || got != uint32(in)*uint32(in-1)/2 && in > 0 {
					t.Errorf("%d words in, %d out: %d, %v", in, out, got, err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// TestCancelUnderLoad gives calls up at random moments; what goes on must be
// undamaged, and all memory must come back.
func TestCancelUnderLoad(t *testing.T) {
	addr := startDepot(t, ServerConfig{Credits: 8})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.Credits, c.LongBytes = 8, 3<<20 })
	var callers sync.WaitGroup
	for g := range 6 {
		callers.Go(func() {
			v := mem.Vec{r.arena.Seg(g<<20, 1<<20)}
			for i := range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				xid := uint32(g<<16 | i)
				give := make(chan struct{})
				if i%2 == 0 {
					go func() {
						for range i * 500 {
							if ctx.Err() != nil {
								break
							}
						}
						cancel()
						close(give)
					}()
				} else {
					close(give)
				}
				var got int
				err := r.Exchange(ctx, xid, depotGet(v, xid, 1<<20, &got))
				if i%2 == 1 && err != nil {
					// The peer may have been in the middle of a Write when a
					// call was given up: that costs the connection.
					if r.Err() == nil {
						t.Error(err)
					}
					cancel()
					return
				}
				want := make([]byte, 1<<20)
				if fill(want, xid); err == nil && !bytes.Equal(v[0].Bytes(), want) {
					t.Error("data arrived damaged")
				}
				cancel()
				<-give
			}
		})
	}
	callers.Wait()
}

// TestSteadyStateAllocates bounds what one call allocates in both halves and
// below. The requester's part of it is nothing.
func TestSteadyStateAllocates(t *testing.T) {
	t.Run("version 1", func(t *testing.T) { steadyState(t, nil) })
	t.Run("version 2", func(t *testing.T) { steadyState(t, try2) })
}

func steadyState(t *testing.T, change func(*DialerConfig)) {
	r := dialPeer(t, startDepot(t, ServerConfig{}), change)
	v := mem.Vec{r.arena.Seg(0, 65536)}
	for name, c := range map[string]*transport.Call{
		"null":    {Prog: 200000, Vers: 1},
		"payload": {Prog: 200000, Vers: 1, Proc: 4, Send: []transport.Payload{v}, Args: func(w *xdr.Writer) { w.Payload(0) }},
	} {
		call := func() {
			if err := r.do(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			call()
		}
		if n := testing.AllocsPerRun(200, call); n > 6 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}

func benchmarkRig(b *testing.B) *rig {
	r := dialPeer(b, startDepot(b, ServerConfig{}), func(c *DialerConfig) { c.Credits = 64 })
	b.ReportAllocs()
	return r
}

func BenchmarkNull(b *testing.B) {
	r := benchmarkRig(b)
	c := &transport.Call{Prog: 200000, Vers: 1}
	for b.Loop() {
		if err := r.do(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNull16(b *testing.B) {
	r := benchmarkRig(b)
	c := &transport.Call{Prog: 200000, Vers: 1}
	benchmarkCallers(b, r, 16, func(int) *transport.Call { return c })
}

func BenchmarkPut1MiB(b *testing.B)       { benchmarkPut(b, 1) }
func BenchmarkPut1MiBDepth4(b *testing.B) { benchmarkPut(b, 4) }
func BenchmarkGet1MiB(b *testing.B)       { benchmarkGet(b, 1) }
func BenchmarkGet1MiBDepth4(b *testing.B) { benchmarkGet(b, 4) }

func benchmarkPut(b *testing.B, depth int) {
	r := benchmarkRig(b)
	b.SetBytes(1 << 20)
	benchmarkCallers(b, r, depth, func(g int) *transport.Call {
		c := depotPut(mem.Vec{r.arena.Seg(g<<20, 1<<20)}, new(uint32))
		c.Proc = 4
		c.Result = nil
		return c
	})
}

func benchmarkGet(b *testing.B, depth int) {
	r := benchmarkRig(b)
	b.SetBytes(1 << 20)
	benchmarkCallers(b, r, depth, func(g int) *transport.Call {
		c := depotGet(mem.Vec{r.arena.Seg(g<<20, 1<<20)}, 1, 1<<20, new(int))
		c.Proc = 5
		return c
	})
}

func benchmarkCallers(b *testing.B, r *rig, depth int, call func(g int) *transport.Call) {
	var callers sync.WaitGroup
	for g := range depth {
		n := b.N / depth
		if g < b.N%depth {
			n++
		}
		c := call(g)
		callers.Go(func() {
			for i := range n {
				if err := r.Exchange(context.Background(), uint32(g<<24|i), c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}
