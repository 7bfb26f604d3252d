package rc

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// answers has the peer answer with a syndrome, skip numbers after una.
func (b *bench) answers(now time.Duration, op packet.Opcode, syndrome uint8, skip, n int) {
	h := packet.Header{Op: op, PSN: b.q.req.psn(b.q.req.una).Add(skip), AETH: packet.AETH{Syndrome: syndrome}}
	b.q.Receive(now, &h, make([]byte, n))
}

// numbers are the PSNs of packets, from the first that was ever sent.
func (b *bench) numbers(hs []packet.Header) (n []int) {
	for _, h := range hs {
		n = append(n, h.PSN.Sub(b.q.req.base))
	}
	return n
}

func (b *bench) wantSent(what string, from, to int) []packet.Header {
	b.t.Helper()
	hs := b.out()
	n := b.numbers(hs)
	if len(n) != to-from {
		b.t.Fatalf("%s: sent %v, want %d to %d", what, n, from, to-1)
	}
	for i := range n {
		if n[i] != from+i {
			b.t.Fatalf("%s: sent %v, want %d to %d", what, n, from, to-1)
		}
	}
	return hs
}

func established(t *testing.T) *bench { return newBench(t, newArena(t, 128<<10), Established) }

// long is a message of many packets.
func (b *bench) long(op verbs.Op, packets int) {
	b.t.Helper()
	b.post(verbs.SendWR{ID: 1, Op: op, Signaled: true, Local: mem.Vec{b.arena.Seg(32<<10, packets*mtu)}})
}

// TestWindow: no more than the window is under way, it asks for an acknowledgement
// before it is full, and each acknowledgement lets as much follow.
func TestWindow(t *testing.T) {
	b := established(t)
	limit := b.q.req.window.limit
	b.long(verbs.OpSend, 3*limit)
	sent := b.wantSent("first window", 0, limit)
	asked := 0
	for _, h := range sent {
		if h.AckReq {
			asked++
		}
	}
	if !sent[limit-1].AckReq || asked < 2 || asked > 8 {
		t.Errorf("%d packets of %d ask for an acknowledgement, the last: %v", asked, limit, sent[limit-1].AckReq)
	}
	b.answers(0, packet.Acknowledge, synAckUnlimited, 9, 0)
	b.wantSent("after 10 were acknowledged", limit, limit+10)
	b.answers(0, packet.Acknowledge, synAckUnlimited, limit-1, 0)
	b.wantSent("after the window was acknowledged", limit+10, 2*limit+10)
	b.answers(0, packet.Acknowledge, synAckUnlimited, limit-1, 0)
	last := b.wantSent("the rest", 2*limit+10, 3*limit)
	if !last[len(last)-1].AckReq {
		t.Error("the last packet asks for no acknowledgement")
	}
	b.answers(0, packet.Acknowledge, synAckUnlimited, len(last)-1, 0)
	if got := b.reap(); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("completed %+v", got)
	}
}

// TestSequenceNAK goes back to what the peer names, and shrinks the window.
func TestSequenceNAK(t *testing.T) {
	b := established(t)
	limit := b.q.req.window.limit
	b.long(verbs.OpWrite, limit)
	b.wantSent("all", 0, limit)
	b.answers(0, packet.Acknowledge, synSequence, 5, 0)
	b.wantSent("from what was lost on", 5, 5+limit*3/4)
	// The first copies get there after all.
	b.answers(0, packet.Acknowledge, synAckUnlimited, limit-6, 0)
	if got := b.reap(); len(got) != 1 {
		t.Errorf("completed %+v", got)
	}
	b.wantSent("nothing more", 0, 0)
}

// TestNotReady waits as long as the peer says, and not without end.
func TestNotReady(t *testing.T) {
	b := established(t)
	b.q.peer.RNRRetries = 3
	b.long(verbs.OpSend, 2)
	b.wantSent("all", 0, 2)
	now := time.Duration(0)
	for range 3 {
		b.answers(now, packet.Acknowledge, synRNR|20, 0, 0)
		b.wantSent("while the peer is not ready", 0, 0)
		if got := b.q.Deadline(); got != now+10240*time.Microsecond {
			t.Fatalf("tries again at %v, now is %v", got, now)
		}
		now = b.q.Deadline()
		b.q.Advance(now)
		if n := len(b.outAt(now)); n != 2 {
			t.Fatalf("sent %d packets again, want 2", n)
		}
	}
	b.answers(now, packet.Acknowledge, synRNR|20, 0, 0)
	if !errors.Is(b.q.Err(), ErrNotReady) {
		t.Errorf("failed with %v", b.q.Err())
	}
}

func (b *bench) outAt(now time.Duration) (all []packet.Header) {
	var p Packet
	for b.q.Next(now, &p) {
		all = append(all, p.Header)
	}
	return all
}

// TestSilence: with no answer the time between tries doubles up to its bound, and
// then the queue pair fails.
func TestSilence(t *testing.T) {
	b := established(t)
	b.long(verbs.OpSend, 1)
	b.wantSent("first", 0, 1)
	last, gap, tries := time.Duration(0), time.Duration(0), 0
	for b.q.State() == Established {
		now := b.q.Deadline()
		if want := min(2*gap, rtoMax); gap != 0 && now-last != want {
			t.Fatalf("try %d after %v, want %v", tries, now-last, want)
		}
		last, gap = now, now-last
		b.q.Advance(now)
		if n := len(b.outAt(now)); b.q.State() == Established && n != 1 {
			t.Fatalf("try %d sent %d packets", tries, n)
		}
		tries++
	}
	if !errors.Is(b.q.Err(), ErrRetries) || tries != maxTries+1 || b.q.Deadline() != Never {
		t.Errorf("failed with %v after %d tries, at %v", b.q.Err(), tries, last)
	}
}

// TestReadPieces asks for a READ in pieces within depth and window, and after a
// loss for what is missing only, up to where the first request ended.
func TestReadPieces(t *testing.T) {
	b := established(t)
	b.q.peer.ReadsOut = 1
	b.q.req.piece = 4
	b.long(verbs.OpRead, 10)
	ask := func(what string, from, n int) {
		t.Helper()
		hs := b.out()
		if len(hs) != 1 || hs[0].Op != packet.ReadRequest || b.numbers(hs)[0] != from ||
			hs[0].RETH.VA != uint64(from*mtu) || hs[0].RETH.Len != uint32(n*mtu) {
			t.Fatalf("%s: sent %+v, want a READ of %d packets from %d", what, hs, n, from)
		}
	}
	ask("first piece", 0, 4)
	b.answers(0, packet.ReadResponseFirst, synAckUnlimited, 0, mtu)
	b.wantSent("while the piece is on its way", 0, 0)
	b.answers(0, packet.ReadResponseMiddle, 0, 1, mtu) // one is missing
	ask("after a gap", 1, 3)
	b.answers(0, packet.ReadResponseLast, synAckUnlimited, 2, mtu)
	b.wantSent("a gap that is known", 0, 0)
	for range 3 {
		b.answers(0, packet.ReadResponseMiddle, 0, 0, mtu)
	}
	ask("second piece", 4, 4)
	b.answers(0, packet.ReadResponseFirst, synAckUnlimited, 0, mtu)
	now := b.q.Deadline()
	b.q.Advance(now)
	ask("after silence", 5, 3)
	for range 3 {
		b.answers(now, packet.ReadResponseMiddle, 0, 0, mtu)
	}
	ask("last piece", 8, 2)
	for range 2 {
		b.answers(now, packet.ReadResponseMiddle, 0, 0, mtu)
	}
	if got := b.reap(); len(got) != 1 || got[0].Op != verbs.OpRead {
		t.Errorf("completed %+v", got)
	}
	b.wantSent("nothing more", 0, 0)
}

// TestReadAnswerOfWrongLength fails without a byte written beyond.
func TestReadAnswerOfWrongLength(t *testing.T) {
	for _, n := range []int{0, mtu - 1, mtu + 1} {
		b := established(t)
		b.long(verbs.OpRead, 2)
		b.out()
		check := b.canary()
		b.answers(0, packet.ReadResponseFirst, synAckUnlimited, 0, n)
		check()
		var v *Violation
		if !errors.As(b.q.Err(), &v) {
			t.Errorf("%d bytes: failed with %v", n, b.q.Err())
		}
	}
}

// TestProbe: a peer that says nothing is asked, once, and the answer keeps the
// connection.
func TestProbe(t *testing.T) {
	b := established(t)
	for range 3 {
		now := b.q.Deadline()
		if now != b.q.heard+probeAfter {
			t.Fatalf("looks again at %v, heard at %v", now, b.q.heard)
		}
		b.q.Advance(now)
		hs := b.outAt(now)
		if len(hs) != 1 || hs[0].Op != packet.WriteOnly || hs[0].RETH.Len != 0 || !hs[0].AckReq {
			t.Fatalf("sent %+v", hs)
		}
		b.answers(now, packet.Acknowledge, synAckUnlimited, 0, 0)
		if len(b.reap()) != 0 || b.q.heard != now {
			t.Fatal("the probe completed for the user, or its answer was not heard")
		}
	}
	// It has a place of its own in a full queue.
	for range 8 {
		b.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true})
	}
	b.out()
	b.answers(0, packet.Acknowledge, synAckUnlimited, 7, 0)
	b.q.Advance(b.q.Deadline())
	if hs := b.outAt(b.q.heard + probeAfter); len(hs) != 1 {
		t.Errorf("sent %+v", hs)
	}
}

// TestDuplicates: the responder acknowledges again what it has, and places none
// of it again.
func TestDuplicates(t *testing.T) {
	b := established(t)
	w := packet.Header{Op: packet.WriteOnly, RETH: packet.RETH{VA: b.va, RKey: b.key, Len: 8}}
	b.feed(w, 0, 8)
	b.feed(packet.Header{Op: packet.SendOnly, AckReq: true}, 0, 4)
	if out := b.out(); len(out) != 1 || out[0].PSN != b.q.resp.expect.Add(-1) || out[0].AETH.MSN != 2 {
		t.Fatalf("answered %+v", out)
	}
	check := b.canary()
	b.feed(w, -2, 8)
	b.feed(packet.Header{Op: packet.SendOnly}, -1, 4)
	if out := b.out(); len(out) != 1 || out[0].PSN != b.q.resp.expect.Add(-1) || out[0].AETH != (packet.AETH{Syndrome: synAckUnlimited, MSN: 2}) {
		t.Errorf("duplicates are answered with %+v", out)
	}
	check()
	if got := b.reap(); len(got) != 1 {
		t.Errorf("received %+v", got)
	}
}

// TestReplayAfterWrap: sequence numbers come round, and a READ of the lap before
// does not stand in for the one that is asked for again.
func TestReplayAfterWrap(t *testing.T) {
	b := established(t)
	rd := func(off, n, skip int) {
		b.feed(packet.Header{Op: packet.ReadRequest, RETH: packet.RETH{VA: b.va + uint64(off), RKey: b.key, Len: uint32(n)}}, skip, 0)
	}
	first := b.q.resp.expect
	rd(0, 2*mtu, 0)
	b.out()
	b.q.resp.expect = first.Add(-2) // a lap later
	rd(0, 4*mtu, 0)
	b.out()
	rd(2*mtu, 2*mtu, -2)
	if out := b.out(); len(out) != 2 || out[0].Op != packet.ReadResponseFirst || out[0].PSN != first {
		t.Errorf("answered %+v", out)
	}
}

// TestReplay: a READ is answered again, or the rest of it, in front of what comes
// after; a strange one is not.
func TestReplay(t *testing.T) {
	b := established(t)
	rd := func(off, n, skip int) {
		b.feed(packet.Header{Op: packet.ReadRequest, RETH: packet.RETH{VA: b.va + uint64(off), RKey: b.key, Len: uint32(n)}}, skip, 0)
	}
	rd(0, 4*mtu, 0)
	first := b.out()
	if len(first) != 4 {
		t.Fatalf("answered %+v", first)
	}
	rd(0, mtu, 0) // takes one number
	rd(mtu, 3*mtu, -4)
	out := b.out()
	want := []struct {
		op  packet.Opcode
		psn packet.PSN
	}{
		{packet.ReadResponseFirst, first[1].PSN}, {packet.ReadResponseMiddle, first[2].PSN},
		{packet.ReadResponseLast, first[3].PSN}, {packet.ReadResponseOnly, first[3].PSN.Add(1)},
	}
	if len(out) != len(want) {
		t.Fatalf("answered %+v", out)
	}
	for i, w := range want {
		if out[i].Op != w.op || out[i].PSN != w.psn {
			t.Errorf("answer %d is %v %v, want %v %v", i, out[i].Op, out[i].PSN, w.op, w.psn)
		}
	}
	rd(mtu, 4*mtu, -4)
	rd(0, mtu, -4)
	rd(0, mtu, -20)
	if out := b.out(); len(out) != 0 || b.q.State() != Established {
		t.Errorf("strange READs are answered with %+v, state %d", out, b.q.State())
	}
	// What is gone by now is refused; that the connection goes on is the peer's
	// to decide.
	b.post(verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: b.key})
	rd(0, mtu, -1)
	if out := b.out(); len(out) != 1 || out[0].AETH.Syndrome != synAccess || b.q.State() != Established {
		t.Errorf("a READ that comes again after the window is answered with %+v, state %d", out, b.q.State())
	}
}

// TestPace: a long READ's answer comes in bursts, smaller ones after a loss.
func TestPace(t *testing.T) {
	p := newPacer()
	now := time.Duration(0)
	burst := func() (n int) {
		for p.take(now) {
			n++
		}
		now = p.ready()
		return n
	}
	if n := burst(); n != paceMax {
		t.Errorf("first burst of %d", n)
	}
	p.slow()
	for range 3 {
		before := now
		if n := burst(); n > paceMax*3/4+6 || n < paceMax*3/4 || now != before+paceInterval {
			t.Errorf("burst of %d after a loss, next after %v", n, now-before)
		}
	}
	for range 10 {
		p.slow()
	}
	if n := burst(); n > paceMin+2 {
		t.Errorf("burst of %d after many losses", n)
	}
}

// TestShortReads: what a peer that asks for little waits for is not paced.
func TestShortReads(t *testing.T) {
	b := established(t)
	key, va := b.bind(b.arena.Seg(32<<10, windowMax*mtu), verbs.RemoteRead)
	rd := func(packets int) {
		b.feed(packet.Header{Op: packet.ReadRequest, RETH: packet.RETH{VA: va, RKey: key, Len: uint32(packets * mtu)}}, 0, 0)
	}
	pace := &b.q.resp.pace
	pace.left = 0
	rd(windowMax / 2)
	rd(windowMax / 2)
	if n := len(b.out()); n != windowMax {
		t.Errorf("%d packets of two short answers of %d", n, windowMax)
	}
	rd(windowMax)
	rd(1)
	if n := len(b.out()); n != 0 || b.q.Deadline() != paceInterval {
		t.Errorf("%d packets of a long answer out of turn, the next at %v", n, b.q.Deadline())
	}
	pace.left = 1
	if n := len(b.out()); n != windowMax+1 {
		t.Errorf("%d packets of a long answer in its turn", n)
	}
}

// TestMissed: a loss on the way to the peer is reported once, one on the way back
// is not.
func TestMissed(t *testing.T) {
	for name, x := range map[string]struct {
		loss func(*bench)
		want bool
	}{
		"none": {func(b *bench) { b.answers(0, packet.Acknowledge, synAckUnlimited, 3, 0) }, false},
		"NAK":  {func(b *bench) { b.answers(0, packet.Acknowledge, synSequence, 3, 0) }, true},
		"silence": {func(b *bench) {
			b.q.Advance(b.q.Deadline())
		}, true},
		"READ again": {func(b *bench) {
			rd := packet.Header{Op: packet.ReadRequest, RETH: packet.RETH{VA: b.va, RKey: b.key, Len: mtu}}
			b.feed(rd, 0, 0)
			b.feed(rd, -1, 0)
		}, true},
		"not ready": {func(b *bench) { b.answers(0, packet.Acknowledge, synRNR|20, 3, 0) }, false},
	} {
		b := established(t)
		b.long(verbs.OpWrite, 8)
		b.out()
		x.loss(b)
		if got := b.q.Missed(); got != x.want {
			t.Errorf("%s: missed %v, want %v", name, got, x.want)
		}
		if b.q.Missed() {
			t.Errorf("%s: reported twice", name)
		}
	}
}

// TestAcknowledgementLast: an acknowledgement leaves behind the requests that are sent with it, but
// never waits for many.
func TestAcknowledgementLast(t *testing.T) {
	for requests, want := range map[int]int{0: 0, 1: 1, aheadMax: aheadMax, aheadMax + 5: aheadMax} {
		b := &bench{side: newSide(t, 64, 8)}
		b.recv(1, b.arena.Seg(0, benchRecv))
		p := plainPeer
		b.q.Connect(0, p)
		b.q.Establish()
		for range requests {
			b.post(verbs.SendWR{Op: verbs.OpSend, Local: mem.Vec{b.arena.Seg(0, 8)}})
		}
		b.feed(packet.Header{Op: packet.SendOnly, AckReq: true}, 0, 8)
		at := -1
		out := b.out()
		for i, h := range out {
			if h.Op == packet.Acknowledge {
				at = i
			}
		}
		if at != want || len(out) != requests+1 {
			t.Errorf("%d requests: %d packets, the acknowledgement is number %d, want %d", requests, len(out), at, want)
		}
	}
}
