package roce

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestPortTaken: if the port has another owner, the error says so.
func TestPortTaken(t *testing.T) {
	at := rocetest.Loopback(t)
	s, err := udp.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := newEnd(t, Config{Local: at}, 4096)
	_, err = e.dev.Dial(limited(t), netip.AddrPortFrom(rocetest.Loopback(t), 20049), e.options())
	var ce *verbs.ConnError
	var taken *udp.InUseError
	if !errors.As(err, &ce) || ce.Op != "dial" || !errors.As(err, &taken) || taken.Addr != at {
		t.Errorf("dial: %v", err)
	}
	_, err = e.dev.Listen(netip.AddrPortFrom(at, 0), verbs.ListenOptions{})
	if !errors.As(err, &ce) || ce.Op != "listen" || !errors.As(err, &taken) {
		t.Errorf("listen: %v", err)
	}
}

// TestLocalAddr: ConnOptions decide, then Config, and the peer sees it.
func TestLocalAddr(t *testing.T) {
	own, other := rocetest.Loopback(t), rocetest.Loopback(t)
	for _, x := range []struct{ say, want netip.Addr }{{netip.Addr{}, own}, {other, other}} {
		c, s := newEnd(t, Config{Local: own}, 4096), newEnd(t, Config{}, 4096)
		o := c.options()
		o.LocalAddr = x.say
		dial(t, c, s, o, rocetest.Loopback(t))
		if got := c.conn.LocalAddr(); got.Addr() != x.want || s.conn.RemoteAddr() != got {
			t.Errorf("connected from %v, which the peer sees as %v; want %v", got, s.conn.RemoteAddr(), x.want)
		}
		c.conn.Close()
		c.dev.Close()
	}
}

// TestNobodyWaits: the peer's Reads and Writes are served while this side does
// not call Wait.
func TestNobodyWaits(t *testing.T) {
	ctx := limited(t)
	const size = 1 << 20
	client, server := pair(t, 2*size)
	half := server.arena.Seg(0, size)
	copy(half.Bytes()[size-8:], "the end.")
	key, va := server.bind(half, verbs.RemoteRead|verbs.RemoteWrite)
	for round := range 3 {
		client.post(
			verbs.SendWR{ID: 1, Op: verbs.OpRead, RKey: key, Addr: va, Local: mem.Vec{client.arena.Seg(0, size)}},
			verbs.SendWR{ID: 2, Op: verbs.OpWrite, Signaled: true, RKey: key, Addr: va, Local: mem.Vec{client.arena.Seg(size, size-8)}})
		for id := uint64(1); id <= 2; id++ {
			if c := client.next(ctx); c.ID != id {
				t.Fatalf("round %d: completed %+v, want %d", round, c, id)
			}
		}
	}
	if got := string(client.arena.Bytes()[size-8 : size]); got != "the end." {
		t.Errorf("read %q", got)
	}
}

// runCounting sends numbers one by one, each with the peer's leave, and checks
// the peer's.
func runCounting(ctx context.Context, e *end, c verbs.Conn, at, rounds int, done *sync.WaitGroup) {
	defer done.Done()
	in, out := e.arena.Seg(at, 8), e.arena.Seg(at+8, 8)
	var wc [2]verbs.Completion
	for i, sent, got := 0, true, true; i < rounds; {
		if sent && got {
			if _, err := c.PostRecv([]verbs.RecvWR{{Buf: in}}); err != nil {
				e.t.Error(err)
				return
			}
			binary.LittleEndian.PutUint64(out.Bytes(), uint64(at+i))
			if _, err := c.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{out}}}); err != nil {
				e.t.Error(err)
				return
			}
			sent, got = false, false
		}
		n, err := c.Wait(ctx, wc[:])
		if err != nil {
			e.t.Errorf("round %d: %v", i, err)
			return
		}
		for _, x := range wc[:n] {
			if x.Op == verbs.OpSend {
				sent = true
				continue
			}
			got = true
			if v := binary.LittleEndian.Uint64(in.Bytes()); v != uint64(at+i) {
				e.t.Errorf("round %d: received %d", i, v-uint64(at))
				return
			}
		}
		if sent && got {
			i++
		}
	}
}

// TestManyConnections share two sockets, and readers come and go.
func TestManyConnections(t *testing.T) {
	const conns, rounds = 12, 150
	ctx := limited(t)
	c, s := newEnd(t, Config{Local: rocetest.Loopback(t)}, 1<<16), newEnd(t, Config{}, 1<<16)
	at := rocetest.Loopback(t)
	var all []verbs.Conn
	var done sync.WaitGroup
	for i := range conns {
		dial(t, c, s, c.options(), at)
		all = append(all, c.conn, s.conn)
		c.conn, s.conn = nil, nil
		done.Add(2)
		go runCounting(ctx, c, all[2*i], 4096*i, rounds, &done)
		go runCounting(ctx, s, all[2*i+1], 4096*i, rounds, &done)
	}
	done.Wait()
	for _, x := range all {
		x.Close()
	}
}

// TestForgery: a stranger who knows queue pair, key, and PSN, but not to send
// from the peer's address, or who names another partition, gets nothing done.
func TestForgery(t *testing.T) {
	client, server := pair(t, 1<<16)
	seg := server.arena.Seg(0, 64)
	key, va := server.bind(seg, verbs.RemoteWrite)
	sc := server.conn.(*conn)

	stranger, err := udp.Open(rocetest.Loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	path, err := udp.NewPath(stranger.Local(), sc.local.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var b udp.Batch
	forge := func(h packet.Header) {
		b.Add(path, h.Append(nil), mem.Vec{client.arena.Seg(0, int(h.RETH.Len))})
		if err := stranger.Send(&b); err != nil {
			t.Fatal(err)
		}
	}
	client.arena.Bytes()[0] = 0xbb
	forge(packet.Header{Op: packet.WriteOnly, PKey: packet.DefaultPKey, DestQP: sc.qpn, PSN: sc.psn, AckReq: true,
		RETH: packet.RETH{VA: va, RKey: key, Len: 4}})
	forge(packet.Header{Op: packet.ReadRequest, PKey: packet.DefaultPKey, DestQP: sc.qpn, PSN: sc.psn,
		RETH: packet.RETH{VA: va + 1<<20, RKey: key, Len: 4}})
	forge(packet.Header{Op: packet.DatagramSend, PKey: packet.DefaultPKey, DestQP: cmQPN, DETH: packet.DETH{QKey: cmQKey, SrcQP: 1}})
	// The peer itself, in another partition.
	cc := client.conn.(*conn)
	cc.mu.Lock()
	h := packet.Header{Op: packet.WriteOnly, PKey: 0x1234, DestQP: sc.qpn, PSN: sc.psn, RETH: packet.RETH{VA: va, RKey: key, Len: 4}}
	cc.batch.Add(cc.path, h.Append(nil), mem.Vec{client.arena.Seg(0, 4)})
	err = cc.port.sock.Send(&cc.batch)
	cc.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	// What the socket takes in order has been looked at when this has come.
	server.recv(1, server.arena.Seg(4096, 8))
	client.post(verbs.SendWR{Op: verbs.OpSend})
	server.next(limited(t))
	for i, x := range seg.Bytes() {
		if x != 0 {
			t.Fatalf("byte %d was changed to %#x", i, x)
		}
	}
}

// TestLostBeforeEstablished: an accepted connection whose peer goes away at
// once dies.
func TestLostBeforeEstablished(t *testing.T) {
	ctx := limited(t)
	c, s := newEnd(t, Config{Local: rocetest.Loopback(t)}, 4096), newEnd(t, Config{}, 4096)
	l, err := s.dev.Listen(netip.AddrPortFrom(rocetest.Loopback(t), 0), verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dctx, stop := context.WithCancel(ctx)
	dialed := make(chan error, 1)
	go runDialOnly(dctx, c, l.Addr(), dialed)
	r, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-dialed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s.conn, err = r.Accept(ctx, s.options()); err != nil {
		var ce *verbs.ConnError
		if !errors.As(err, &ce) {
			t.Errorf("accept: %v", err)
		}
		s.conn = nil
		return
	}
	var ce *verbs.ConnError
	if _, err := s.conn.Wait(ctx, make([]verbs.Completion, 1)); !errors.As(err, &ce) {
		t.Errorf("wait: %v", err)
	}
}

func runDialOnly(ctx context.Context, e *end, to netip.AddrPort, out chan<- error) {
	_, err := e.dev.Dial(ctx, to, e.options())
	out <- err
}
