package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// faultyRig is a requester at the depot whose device fails as f says.
func faultyRig(t *testing.T, f *verbstest.Faults, change func(*DialerConfig)) *rig {
	return dialPeer(t, startDepot(t, ServerConfig{}), func(c *DialerConfig) {
		c.Device = verbstest.Faulty(c.Device, f)
		if change != nil {
			change(c)
		}
	})
}

// shapes are calls of all ways to travel, in memory of their own.
func (r *rig) shapes(g int) []*transport.Call {
	room := r.arena.Seg(g<<18, 1<<18)
	return []*transport.Call{
		{Prog: 200000, Vers: 1},
		depotPut(mem.Vec{room.Slice(0, 3000)}, new(uint32)),
		depotPut(mem.Vec{room.Slice(0, 100000)}, new(uint32)),
		depotGet(mem.Vec{room.Slice(0, 100001)}, 7, 100001, new(int)),
		depotWords(3000, 3000, new(uint32)),
	}
}

func TestDialFailure(t *testing.T) {
	var f verbstest.Faults
	r := faultyRig(t, &f, nil)
	f.FailDials(1)
	_, err := r.d.Dial(within(t, patience))
	var ce *verbs.ConnError
	if !errors.As(err, &ce) || !errors.Is(err, verbstest.ErrFault) {
		t.Errorf("got %v", err)
	}
	l, err := r.d.Dial(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Exchange(within(t, patience), 1, r.shapes(0)[0]); err != nil {
		t.Error(err)
	}
	if s := r.d.Stats(); s.Connects != 2 || s.ConnectFails != 1 || s.Credits < 16 {
		t.Errorf("statistics %+v", s)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestCutAnywhere cuts the connection at each Send and at each completion of a
// run of calls of all shapes: what fails must say so, and leave nothing behind.
func TestCutAnywhere(t *testing.T) {
	for _, at := range []string{"Send", "completion"} {
		for n := 1; n <= 24; n++ {
			t.Run(fmt.Sprintf("%s %d", at, n), func(t *testing.T) {
				var f verbstest.Faults
				r := faultyRig(t, &f, nil)
				if at == "Send" {
					f.CutAfterSends(n)
				} else {
					f.CutAfterCompletions(n)
				}
				var callers sync.WaitGroup
				for g := range 4 {
					callers.Go(func() {
						for i := 0; r.Err() == nil; i++ {
							err := r.Exchange(within(t, patience), uint32(g<<16|i), r.shapes(g)[i%5])
							var te *transport.Error
							if err != nil && (!errors.As(err, &te) || te.Fate == transport.Answered || !errors.Is(err, verbstest.ErrFault)) {
								t.Errorf("got %v", err)
							}
						}
					})
				}
				callers.Wait()
				<-r.Done()
				if !errors.Is(r.Err(), verbstest.ErrFault) {
					t.Errorf("the link ended with %v", r.Err())
				}
			})
		}
	}
}

// cancelledWhen returns a context that ends once cond is true.
func cancelledWhen(t *testing.T, cond func() bool) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for end := within(t, patience); end.Err() == nil && !cond(); {
			runtime.Gosched()
		}
		cancel()
	})
	t.Cleanup(watcher.Wait)
	return ctx
}

// TestLostSend has a Send vanish: the call is given up, the others go on.
func TestLostSend(t *testing.T) {
	var f verbstest.Faults
	r := faultyRig(t, &f, nil)
	ctx := within(t, patience)
	if err := r.do(ctx, r.shapes(0)[0]); err != nil {
		t.Fatal(err)
	}
	for i := range r.shapes(0) {
		f.SwallowSend(1)
		gone := cancelledWhen(t, func() bool {
			_, _, swallowed := f.Counts()
			return swallowed == i+1
		})
		wantFate(t, r.do(gone, r.shapes(0)[i]), transport.Unknown, context.Canceled)
		for _, c := range r.shapes(1) {
			if err := r.do(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.Credits().Usage().Used != 5 || r.d.long.Stats().Leases != 0 {
		t.Errorf("%d credits and %d long buffers in use", r.Credits().Usage().Used, r.d.long.Stats().Leases)
	}
}

// idleDevice makes connections that invalidate nothing.
type idleDevice struct{ verbs.Device }

func (d idleDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	c, err := d.Device.Dial(ctx, to, o)
	return idleConn{c}, err
}

type idleConn struct{ verbs.Conn }

func (c idleConn) PostSend(wr []verbs.SendWR) (int, error) {
	if wr[0].Op == verbs.OpLocalInvalidate {
		return len(wr), nil
	}
	return c.Conn.PostSend(wr)
}

// TestInvalidationThatNeverCompletes: the call must end all the same, at the
// price of the link.
func TestInvalidationThatNeverCompletes(t *testing.T) {
	r := dialPeer(t, startDepot(t, ServerConfig{}), func(c *DialerConfig) {
		c.Device, c.StallLimit = idleDevice{c.Device}, 20*time.Millisecond
	})
	if err := r.do(within(t, patience), r.shapes(0)[3]); err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	if !errors.Is(r.Err(), errStalled) {
		t.Errorf("the link ended with %v", r.Err())
	}
}

func TestPrivateDataCorrupted(t *testing.T) {
	for _, c := range []struct {
		change func([]byte) []byte
		want   int
	}{
		{func([]byte) []byte { return nil }, 1024},
		{func(b []byte) []byte { return b[:len(b)-1] }, 1024},
		{func(b []byte) []byte { return append([]byte("header of another layer"), b...) }, 4096},
		{func(b []byte) []byte { return wire.PrivateData{SendSize: 1 << 20, RecvSize: 1 << 20}.Append(nil) }, 4096},
		{func(b []byte) []byte { return wire.PrivateData{SendSize: 2048, RecvSize: 2048}.Append(nil) }, 2048},
	} {
		var f verbstest.Faults
		f.CorruptPrivateData(c.change)
		r := faultyRig(t, &f, nil)
		if r.Terms().SendInline != c.want || r.Terms().RecvInline != c.want {
			t.Errorf("terms %+v, want %d", r.Terms(), c.want)
		}
		for _, call := range r.shapes(0) {
			if err := r.do(within(t, patience), call); err != nil {
				t.Error(err)
			}
		}
	}
}
