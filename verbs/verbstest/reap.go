package verbstest

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// testPostAndReap posts with a Wait under way beside: each completion comes
// once, here or there, and each in the order of posting.
func testPostAndReap(r *rig) {
	r.connect()
	const n = 10 * recvs
	taken := make(chan struct{}, n)
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	waited := make(chan []verbs.Completion, 1)
	served := make(chan struct{})
	seen := make(chan struct{}, n)
	go runTake(ctx, r.server, taken, served)
	go runCollect(ctx, r.client, seen, waited)

	var reaped []verbs.Completion
	var wc [2]verbs.Completion
	for i := range n {
		if i >= recvs {
			select {
			case <-taken:
			case <-served:
				r.t.Fatal("the server takes no more")
			}
		}
		wr := []verbs.SendWR{{ID: uint64(i), Op: verbs.OpSend, Signaled: true, Local: vec(r.client.seg(i, 1))}}
		posted, k, err := r.client.conn.PostAndReap(wr, wc[:])
		if posted != 1 || err != nil {
			r.t.Fatalf("send %d: posted %d, %v", i, posted, err)
		}
		reaped = append(reaped, wc[:k]...)
		for range k {
			seen <- struct{}{}
		}
	}
	for i := range n {
		select {
		case <-seen:
		case <-r.ctx.Done():
			r.t.Fatalf("%d completions of %d", i, n)
		}
	}
	stop()
	<-served
	count := make([]int, n)
	for _, wc := range [][]verbs.Completion{reaped, <-waited} {
		last := -1
		for _, c := range wc {
			if c.Op != verbs.OpSend || c.ID >= n || int(c.ID) <= last {
				r.t.Fatalf("completion %+v after %d", c, last)
			}
			last = int(c.ID)
			count[last]++
		}
	}
	for i, k := range count {
		if k != 1 {
			r.t.Errorf("send %d completed %d times", i, k)
		}
	}
}

// runTake takes messages and tells of each once there is room for another.
func runTake(ctx context.Context, e *end, taken chan<- struct{}, served chan<- struct{}) {
	defer close(served)
	for {
		c, err := e.tryNext(ctx)
		if err != nil {
			return
		}
		e.repost(c)
		taken <- struct{}{}
	}
}

// runCollect gathers what Wait returns until ctx ends.
func runCollect(ctx context.Context, e *end, seen chan<- struct{}, all chan<- []verbs.Completion) {
	var got []verbs.Completion
	for {
		c, err := e.tryNext(ctx)
		if err != nil {
			all <- got
			return
		}
		got = append(got, c)
		seen <- struct{}{}
	}
}
