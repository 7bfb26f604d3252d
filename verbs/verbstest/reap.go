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
			// Who collects may be slower than the server.
			select {
			case <-seen:
			case <-r.ctx.Done():
				r.t.Fatalf("no completion of send %d", i-recvs)
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
	for i := n - recvs; i < n; i++ {
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

// runTake takes messages and announces each once there is room for another.
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

// testReceivesBesideReap sends messages while another goroutine posts the answer
// to the last with PostAndReap: Wait must return the receives that PostAndReap
// polled and did not take. One message at a time is in flight, so that no later
// one can wake Wait.
func testReceivesBesideReap(r *rig) {
	r.connect()
	n := 32 * r.pace.Rounds
	messages := make(chan verbs.Completion, recvs)
	done := make(chan struct{})
	go runAnswers(r.server, messages, done)
	go runMessages(r.ctx, r.server, n, messages)
	for i := range n {
		r.client.post(verbs.SendWR{Op: verbs.OpSend, Local: vec(r.client.seg(0, 4))})
		c, err := r.client.tryNext(r.ctx)
		if err != nil {
			r.t.Errorf("answer %d of %d: %v", i, n, err)
			_ = r.server.conn.Close()
			break
		}
		r.client.repost(c)
	}
	<-done
	for range messages { // until runMessages has ended, too
	}
}

// runMessages takes n messages and hands them on.
func runMessages(ctx context.Context, e *end, n int, messages chan<- verbs.Completion) {
	defer close(messages)
	for range n {
		c, err := e.tryNext(ctx)
		if err != nil {
			e.t.Errorf("server: %v", err)
			return
		}
		messages <- c
	}
}

// runAnswers answers each message and gives its receive back.
func runAnswers(e *end, messages <-chan verbs.Completion, done chan<- struct{}) {
	defer close(done)
	var wc [4]verbs.Completion
	for c := range messages {
		if _, err := e.conn.PostRecv([]verbs.RecvWR{e.recvWR(int(c.ID))}); err != nil {
			e.t.Errorf("server: post receive: %v", err)
			return
		}
		wr := []verbs.SendWR{{Op: verbs.OpSend, Local: vec(e.seg(0, 4))}}
		if posted, _, err := e.conn.PostAndReap(wr, wc[:]); posted != 1 {
			e.t.Errorf("server: answer not posted: %v", err)
			return
		}
	}
}

// testQuietRequests: a completion implies that the requests before it are done
// with their memory, also the unsignaled ones, and also if a provider need not do
// anything for the completed request itself.
func testQuietRequests(r *rig) {
	r.connect()
	const n = 256 << 10
	src, want, dst := r.client.seg(0, n), r.client.seg(n, n), r.server.seg(0, n)
	_, key, addr := r.server.bind(r.ctx, dst, verbs.RemoteWrite)
	w, err := r.client.conn.NewWindow()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range 4 {
		mine := r.client.rebind(r.ctx, w, r.client.seg(2*n, 64), verbs.RemoteRead)
		pattern(src, i)
		pattern(want, i)
		messages := make(chan verbs.Completion, 1)
		go runMessages(r.ctx, r.server, 1, messages)
		r.client.post(
			verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: addr, Local: vec(src)},
			verbs.SendWR{ID: 5, Op: verbs.OpLocalInvalidate, Signaled: true, RKey: mine})
		if c := r.client.next(r.ctx); c.ID != 5 || c.Op != verbs.OpLocalInvalidate {
			r.t.Fatalf("got %+v, want the completion of the invalidation", c)
		}
		fill(src, 0xee)
		r.client.post(verbs.SendWR{Op: verbs.OpSend})
		c, ok := <-messages
		if !ok {
			r.t.FailNow()
		}
		r.server.repost(c)
		wantEqual(r.t, dst, want, "what was written")
	}
}
