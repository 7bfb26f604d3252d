package verbstest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func vec(s ...mem.Seg) mem.Vec { return s }

// sendByte sends one byte and waits until its memory is free.
func (e *end) sendByte(b byte) {
	e.t.Helper()
	fill(e.seg(0, 1), b)
	e.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: vec(e.seg(0, 1))})
	e.next(context.Background())
}

func testOrderedSends(r *rig) {
	r.connect()
	const n = 10 * recvs
	// The server grants one more message for each that it has taken.
	got := make(chan struct{}, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			c, err := r.server.tryNext(r.ctx)
			if err != nil {
				r.t.Errorf("message %d: %v", i, err)
				return
			}
			if b := r.server.received(c); len(b) != 8 || binary.LittleEndian.Uint64(b) != uint64(i) {
				r.t.Errorf("message %d holds %x", i, b)
			}
			r.server.repost(c)
			got <- struct{}{}
		}
	}()
	for i := range n {
		if i >= recvs {
			select {
			case <-got:
			case <-done:
				i = n
				continue
			}
		}
		s := r.client.seg(i*8, 8)
		binary.LittleEndian.PutUint64(s.Bytes(), uint64(i))
		r.client.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Signaled: true, Local: vec(s)})
		if c := r.client.next(r.ctx); c.ID != uint64(i) || c.Op != verbs.OpSend {
			r.t.Fatalf("send %d completed as %+v", i, c)
		}
	}
	<-done
}

// testSendShapes sends messages of many lengths, from one segment and from many.
func testSendShapes(r *rig) {
	r.connect()
	sge := r.client.dev.Caps().MaxSGE
	for i, n := range []int{0, 1, 2, 3, 4, 5, 63, 64, 65, 1023, 1024, 1025, 1447, 1448, 4095, recvSize} {
		for _, parts := range []int{1, 2, sge} {
			whole := r.client.seg(0, n)
			pattern(whole, i)
			var v mem.Vec
			// Parts stand apart in memory, and some are empty.
			at := 64 << 10
			for p := range parts {
				lo, hi := n*p/parts, n*(p+1)/parts
				s := r.client.seg(at, hi-lo)
				copy(s.Bytes(), whole.Bytes()[lo:hi])
				v = append(v, s)
				at += 2 * (hi - lo + 1)
			}
			r.client.post(verbs.SendWR{Op: verbs.OpSend, Local: v})
			c := r.server.next(r.ctx)
			if c.Op != verbs.OpRecv || c.Len != n || c.Invalidated {
				r.t.Fatalf("%d bytes in %d parts: received %+v", n, parts, c)
			}
			if string(r.server.received(c)) != string(whole.Bytes()) {
				r.t.Fatalf("%d bytes in %d parts: wrong bytes", n, parts)
			}
			r.server.repost(c)
		}
	}
}

// testSendCompletions: only what is signaled completes, in order.
func testSendCompletions(r *rig) {
	r.connect()
	for i := range 10 {
		r.client.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Signaled: i%3 == 2 || i == 9})
	}
	for _, want := range []uint64{2, 5, 8, 9} {
		if c := r.client.next(r.ctx); c.ID != want || c.Op != verbs.OpSend {
			r.t.Fatalf("got %+v, want the completion of %d", c, want)
		}
	}
	for range 10 {
		r.server.repost(r.server.next(r.ctx))
	}
}

// testCompletionWakesWait: a Wait that found nothing returns the completion
// of what is posted meanwhile.
func testCompletionWakesWait(r *rig) {
	r.connect()
	for i := range 50 {
		out := make(chan verbs.Completion, 1)
		go func() {
			c, err := r.client.tryNext(r.ctx)
			if err != nil {
				r.t.Errorf("wait: %v", err)
			}
			out <- c
		}()
		r.client.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Signaled: true})
		if c := <-out; c.ID != uint64(i) {
			r.t.Fatalf("wait %d returned %+v", i, c)
		}
	}
}

func testWaitContext(r *rig) {
	r.connect()
	for range 3 {
		ctx, cancel := context.WithCancel(r.ctx)
		p := r.server.pump(ctx)
		cancel()
		<-p.done
		if !errors.Is(p.err, context.Canceled) {
			r.t.Fatalf("Wait with a canceled context returned %v", p.err)
		}
		// The connection goes on.
		r.client.sendByte(7)
		c := r.server.next(r.ctx)
		if b := r.server.received(c); len(b) != 1 || b[0] != 7 {
			r.t.Fatalf("received %x", b)
		}
		r.server.repost(c)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 1)
	defer cancel()
	if _, err := r.server.tryNext(ctx); !errors.Is(err, context.DeadlineExceeded) {
		r.t.Errorf("Wait after the deadline returned %v", err)
	}
	// Room for one: the others stay for later.
	for i := range 3 {
		r.client.sendByte(byte(i))
	}
	wc := make([]verbs.Completion, 1)
	for i := range 3 {
		if n, err := r.server.conn.Wait(r.ctx, wc); n != 1 || err != nil || r.server.received(wc[0])[0] != byte(i) {
			r.t.Fatalf("message %d: %d, %v", i, n, err)
		}
	}
}

// testWaitFromMany: goroutines take turns to wait, and many of those that wait are
// interrupted. Each message is received once, in order.
func testWaitFromMany(r *rig) {
	r.connect()
	const messages, waiters = 300, 4
	room := make(chan struct{}, recvs/2) // a token for each message that is not received
	var turn sync.Mutex                  // held by who waits
	next := 0
	var ending atomic.Pointer[context.CancelFunc]
	wait := func() (more bool) {
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		turn.Lock()
		defer turn.Unlock()
		if next == messages {
			return false
		}
		ending.Store(&cancel)
		c, err := r.server.tryNext(ctx)
		if err != nil {
			if r.ctx.Err() != nil || !errors.Is(err, context.Canceled) {
				r.t.Errorf("wait for message %d: %v", next, err)
				return false
			}
			return true
		}
		if b := r.server.received(c); len(b) != 1 || b[0] != byte(next) {
			r.t.Errorf("message %d: received %x", next, b)
		}
		if _, err := r.server.conn.PostRecv([]verbs.RecvWR{r.server.recvWR(int(c.ID))}); err != nil {
			r.t.Errorf("post receive: %v", err)
		}
		next++
		<-room
		return true
	}
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			for wait() {
			}
		})
	}
	for i := range messages {
		select {
		case room <- struct{}{}:
		case <-r.ctx.Done():
			r.t.Fatalf("message %d: no room", i)
		}
		r.client.sendByte(byte(i))
		if cancel := ending.Load(); cancel != nil && i%3 == 0 {
			(*cancel)()
		}
	}
	all.Wait()
}

// testQueueFull: signaled requests hold their place until they are reaped.
func testQueueFull(r *rig) {
	o := r.client.options()
	o.SendQueue = 8
	r.connectWith(o, r.server.options())
	if n, err := r.client.conn.PostRecv([]verbs.RecvWR{r.client.recvWR(0)}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		r.t.Errorf("receive beyond the queue: posted %d, %v", n, err)
	}
	wr := make([]verbs.SendWR, 100)
	for i := range wr {
		wr[i] = verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Signaled: true}
	}
	reaped := 0
	for posted := 0; posted < len(wr); {
		n, err := r.client.conn.PostSend(wr[posted:])
		posted += n
		if posted < len(wr) && !errors.Is(err, verbs.ErrQueueFull) {
			r.t.Fatalf("posted %d: %v", posted, err)
		}
		if posted-reaped < 4 {
			r.t.Fatalf("queue of 8 is full with %d requests", posted-reaped)
		}
		if c := r.client.next(r.ctx); c.ID != uint64(reaped) {
			r.t.Fatalf("completion %d is of request %d", reaped, c.ID)
		}
		reaped++
	}
}

// testUsageErrors: the connection goes on as if the request had not been posted.
func testUsageErrors(r *rig) {
	r.connect()
	stranger, err := mem.NewArena(4096)
	if err != nil {
		r.t.Fatal(err)
	}
	defer stranger.Close()
	good := r.client.seg(0, 8)
	w, err := r.client.conn.NewWindow()
	if err != nil {
		r.t.Fatal(err)
	}
	beyond := mem.Seg{Arena: r.client.arena, Off: arenaSize - 4, Len: 8}
	bad := map[string]verbs.SendWR{
		"no operation":       {},
		"receive":            {Op: verbs.OpRecv},
		"unregistered arena": {Op: verbs.OpSend, Local: vec(stranger.Seg(0, 8))},
		"beyond the arena":   {Op: verbs.OpSend, Local: vec(beyond)},
		"negative offset":    {Op: verbs.OpSend, Local: vec(mem.Seg{Arena: r.client.arena, Off: -8, Len: 8})},
		"too many segments":  {Op: verbs.OpSend, Local: make(mem.Vec, r.client.dev.Caps().MaxSGE+1)},
		"read of two":        {Op: verbs.OpRead, Local: vec(good, good)},
		"bind without Next":  {Op: verbs.OpBind, Window: w, Local: vec(good), Access: verbs.RemoteRead},
		"bind of nothing":    {Op: verbs.OpBind, Local: vec(good), Access: verbs.RemoteRead},
	}
	if !r.client.dev.Caps().RegionKeys {
		bound, _, _ := r.client.bind(r.ctx, good, verbs.RemoteRead)
		bound.Next(good)
		bad["bind of a bound window"] = verbs.SendWR{Op: verbs.OpBind, Window: bound, Local: vec(good), Access: verbs.RemoteRead}
	}
	for name, wr := range bad {
		ok := verbs.SendWR{Op: verbs.OpWrite}
		n, err := r.client.conn.PostSend([]verbs.SendWR{ok, wr, ok})
		var ue *verbs.UsageError
		if n != 1 || !errors.As(err, &ue) {
			r.t.Errorf("%s: posted %d, %v", name, n, err)
		}
	}
	n, err := r.client.conn.PostRecv([]verbs.RecvWR{{Buf: stranger.Seg(0, 8)}})
	var ue *verbs.UsageError
	if n != 0 || !errors.As(err, &ue) && !errors.Is(err, verbs.ErrQueueFull) {
		r.t.Errorf("receive into an unregistered arena: posted %d, %v", n, err)
	}
	r.client.sendByte(9)
	if c := r.server.next(r.ctx); c.Len != 1 {
		r.t.Errorf("received %+v", c)
	}
}

func testMissingReceive(r *rig) {
	so := r.server.options()
	so.Prepare = nil
	r.connectWith(r.client.options(), so)
	// connect's own Send has met no receive.
	for i := range recvs {
		if n, err := r.client.conn.PostSend([]verbs.SendWR{{ID: uint64(i), Op: verbs.OpSend}}); n != 1 {
			if errors.Is(err, verbs.ErrQueueFull) {
				break
			}
			var ce *verbs.ConnError
			if !errors.As(err, &ce) {
				r.t.Fatalf("post: %v", err)
			}
			break
		}
	}
	r.bothDie()
}

func testSmallReceive(r *rig) {
	so := r.server.options()
	so.RecvQueue = 2
	const small = 100
	area := r.server.arena.Seg(0, 2*recvSize)
	fill(area, 0xee)
	so.Prepare = func(q verbs.QP) error {
		_, err := q.PostRecv([]verbs.RecvWR{{ID: 0, Buf: area.Slice(0, 0)}, {ID: 1, Buf: area.Slice(0, small)}})
		return err
	}
	r.connectWith(r.client.options(), so)
	if c := r.server.next(r.ctx); c.ID != 0 || c.Len != 0 {
		r.t.Fatalf("received %+v", c)
	}
	if _, err := r.client.conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Local: vec(r.client.seg(0, small+1))}}); err != nil {
		r.t.Fatal(err)
	}
	r.bothDie()
	r.server.wantFill(area.Slice(small, area.Len-small), 0xee, "memory beyond the receive")
}

// testConcurrentPosters: batches stay together, and nothing is lost.
func testConcurrentPosters(r *rig) {
	r.connect()
	const posters, batches, each = 6, 60, 3
	credits := make(chan struct{}, recvs)
	for range recvs / each {
		credits <- struct{}{}
	}
	var all sync.WaitGroup
	for p := range posters {
		all.Go(func() { runPoster(r, p, batches, each, credits) })
	}
	next := make([]uint64, posters)
	for b := range posters * batches {
		var who uint64
		for i := range each {
			c := r.server.next(r.ctx)
			v := binary.LittleEndian.Uint64(r.server.received(c))
			r.server.repost(c)
			p, n := v>>32, v&(1<<32-1)
			if i == 0 {
				who = p
			}
			if p != who || p >= posters || n != next[p] {
				r.t.Fatalf("batch %d, message %d: poster %d sent %d, want %d of %d", b, i, p, n, next[who], who)
			}
			next[p]++
		}
		credits <- struct{}{}
	}
	all.Wait()
}

// runPoster posts batches of consecutive numbers as credits allow.
func runPoster(r *rig, p, batches, each int, credits <-chan struct{}) {
	n := 0
	for range batches {
		select {
		case <-credits:
		case <-r.ctx.Done():
			r.t.Error(r.ctx.Err())
			return
		}
		var wr []verbs.SendWR
		for range each {
			s := r.client.seg((p<<12+n)*8, 8)
			binary.LittleEndian.PutUint64(s.Bytes(), uint64(p)<<32|uint64(n))
			wr = append(wr, verbs.SendWR{Op: verbs.OpSend, Local: vec(s)})
			n++
		}
		if k, err := r.client.conn.PostSend(wr); k != len(wr) || err != nil {
			r.t.Errorf("poster %d: posted %d: %v", p, k, err)
			return
		}
	}
}
