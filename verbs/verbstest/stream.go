package verbstest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// streamSize is what goes each way in a round.
const streamSize = 1 << 20

// peerWindow is what one end may reach of the other.
type peerWindow struct {
	key  uint32
	addr uint64
}

// exchange binds half of each end's memory for the other.
func (r *rig) exchange(a verbs.Access) (atClient, atServer peerWindow) {
	for e, p := range map[*end]*peerWindow{r.client: &atClient, r.server: &atServer} {
		_, p.key, p.addr = e.bind(r.ctx, e.seg(streamSize, streamSize), a)
	}
	return atClient, atServer
}

// runStream posts rounds of Writes with a signaled Send, on the goroutine that
// also waits. It keeps two rounds in flight.
func runStream(ctx context.Context, e *end, to peerWindow, rounds int) {
	const inFlight = 2
	posted, sent, got := 0, 0, 0
	for sent < rounds || got < rounds {
		for posted < rounds && posted-sent < inFlight && posted-got < inFlight {
			var wr []verbs.SendWR
			for off := 0; off < streamSize; off += streamSize / 4 {
				wr = append(wr, verbs.SendWR{Op: verbs.OpWrite, RKey: to.key, Addr: to.addr + uint64(off),
					Local: vec(e.seg(off, streamSize/4))})
			}
			wr = append(wr, verbs.SendWR{Op: verbs.OpSend, Signaled: true})
			if n, err := e.conn.PostSend(wr); n != len(wr) || err != nil {
				e.t.Errorf("%s: posted %d: %v", e.name, n, err)
				return
			}
			posted++
		}
		c, err := e.tryNext(ctx)
		if err != nil {
			e.t.Errorf("%s: after %d sent and %d received: %v", e.name, sent, got, err)
			return
		}
		if c.Op == verbs.OpRecv {
			got++
			e.repost(c)
			continue
		}
		sent++
	}
}

// testStreamBothWays: two ends that write at each other as fast as they can
// must both go on reading.
func testStreamBothWays(r *rig) {
	r.connect()
	atClient, atServer := r.exchange(verbs.RemoteWrite)
	pattern(r.client.seg(0, streamSize), 1)
	pattern(r.server.seg(0, streamSize), 2)
	var all sync.WaitGroup
	all.Go(func() { runStream(r.ctx, r.client, atServer, r.pace.Rounds) })
	all.Go(func() { runStream(r.ctx, r.server, atClient, r.pace.Rounds) })
	all.Wait()
	wantEqual(r.t, r.client.seg(streamSize, streamSize), r.server.seg(0, streamSize), "memory of the client")
	wantEqual(r.t, r.server.seg(streamSize, streamSize), r.client.seg(0, streamSize), "memory of the server")
}

// runReads keeps the read queue busy.
func runReads(ctx context.Context, e *end, from peerWindow, rounds int) {
	const parts = 4
	for range rounds {
		for i := range parts {
			wr := verbs.SendWR{Op: verbs.OpRead, RKey: from.key, Addr: from.addr + uint64(i*streamSize/parts),
				Local: vec(e.seg(i*streamSize/parts, streamSize/parts))}
			if _, err := e.conn.PostSend([]verbs.SendWR{wr}); err != nil {
				e.t.Errorf("%s: post: %v", e.name, err)
				return
			}
		}
		for range parts {
			c, err := e.tryNext(ctx)
			if err != nil || c.Op != verbs.OpRead {
				e.t.Errorf("%s: %+v, %v", e.name, c, err)
				return
			}
		}
	}
}

func testReadBothWays(r *rig) {
	r.connect()
	atClient, atServer := r.exchange(verbs.RemoteRead)
	pattern(r.client.seg(streamSize, streamSize), 1)
	pattern(r.server.seg(streamSize, streamSize), 2)
	// The end that is done first goes on answering the other.
	var all, reads sync.WaitGroup
	ctx, cancel := context.WithCancel(r.ctx)
	for e, p := range map[*end]peerWindow{r.client: atServer, r.server: atClient} {
		reads.Add(1)
		all.Go(func() {
			runReads(r.ctx, e, p, r.pace.Rounds)
			reads.Done()
			if _, err := e.tryNext(ctx); !errors.Is(err, context.Canceled) {
				e.t.Errorf("%s: %v", e.name, err)
			}
		})
	}
	reads.Wait()
	cancel()
	all.Wait()
	wantEqual(r.t, r.client.seg(0, streamSize), r.server.seg(streamSize, streamSize), "memory of the client")
	wantEqual(r.t, r.server.seg(0, streamSize), r.client.seg(streamSize, streamSize), "memory of the server")
}

// runFlood writes, reads and sends until the connection dies.
func runFlood(ctx context.Context, e *end, to peerWindow, started chan<- struct{}) {
	var once sync.Once
	for {
		wr := []verbs.SendWR{
			{Op: verbs.OpWrite, RKey: to.key, Addr: to.addr, Local: vec(e.seg(0, streamSize))},
			{Op: verbs.OpRead, RKey: to.key, Addr: to.addr, Local: vec(e.seg(2*streamSize, streamSize/2))},
		}
		if _, err := e.conn.PostSend(wr); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
			break
		}
		c, err := e.tryNext(ctx)
		if err != nil {
			break
		}
		if c.Op == verbs.OpRead {
			once.Do(func() { close(started) })
		}
	}
	once.Do(func() { close(started) })
}

// flooded sets up a server that floods the client's window, with the client
// reading in the background, and calls stop in the middle of it. What stop revokes
// must be out of reach when it returns.
func flooded(r *rig, stop func(w verbs.Window, key uint32, p *pump)) {
	for range 5 {
		r.connect()
		w, key, addr := r.client.bind(r.ctx, r.client.seg(streamSize, streamSize), verbs.RemoteRead|verbs.RemoteWrite)
		started, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			runFlood(r.ctx, r.server, peerWindow{key, addr}, started)
		}()
		p := r.client.pump(r.ctx)
		<-started
		stop(w, key, p)
		fill(r.client.seg(streamSize, streamSize), 0x5a)
		// The flood ends when the server's connection dies: nothing more can
		// come then.
		<-done
		p.stop()
		r.client.wantFill(r.client.seg(streamSize, streamSize), 0x5a, "memory that was revoked")
		r.disconnect()
	}
}

func testCloseUnderTraffic(r *rig) {
	flooded(r, func(_ verbs.Window, _ uint32, p *pump) {
		if err := r.client.conn.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
		fill(r.client.arena.Seg(0, arenaSize), 0x5a)
	})
	r.client.wantFill(r.client.arena.Seg(0, recvArea), 0x5a, "receives of a closed connection")
}

// testInvalidateUnderWrites revokes in the middle of a Write and a Read: the
// connection dies, but not before the memory is out of reach.
func testInvalidateUnderWrites(r *rig) {
	r.needWindows()
	r.t.Run("free", func(*testing.T) {
		flooded(r, func(w verbs.Window, _ uint32, _ *pump) { w.Free() })
	})
	r.t.Run("local invalidate", func(t *testing.T) {
		flooded(r, func(_ verbs.Window, key uint32, p *pump) {
			invalidated := make(chan struct{})
			p.watch(9, invalidated)
			r.client.post(verbs.SendWR{ID: 9, Op: verbs.OpLocalInvalidate, Signaled: true, RKey: key})
			select {
			case <-invalidated:
			case <-p.done:
			}
		})
	})
}
