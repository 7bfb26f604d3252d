package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
)

// TestCallerReceives: calls one after the other are received by their callers. Each time that runReader has taken over, because
// this test got no time to run, it receives one reply at most.
func TestCallerReceives(t *testing.T) {
	const calls = 500
	addr, _ := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		q.Reply.Uint32(7)
		return transport.Success
	}, ServerConfig{})
	_, l := dial(t, addr, Config{})
	for i := range calls {
		if err := l.Exchange(t.Context(), uint32(i), wantWord(7)); err != nil {
			t.Fatal(err)
		}
	}
	turn := l.(*link).turn
	led, attended := turn.Led(), turn.Attended()
	t.Logf("%d calls: callers received %d times, runReader took over %d times", calls, led, attended)
	if led+attended < calls {
		t.Errorf("%d calls, but their callers received only %d times; runReader took over %d times", calls, led, attended)
	}
}

// TestLeaderLeavesHalfRecord: a caller that is given up leaves, though half of a record has come, and the next one reads on.
func TestLeaderLeavesHalfRecord(t *testing.T) {
	half, proceed := make(chan struct{}), make(chan struct{})
	addr := scripted(t, func(conn net.Conn) {
		call, err := readRecord(conn)
		if err != nil {
			return
		}
		first := record(answer(binary.BigEndian.Uint32(call), 1))
		_, _ = conn.Write(first[:len(first)/2])
		close(half)
		<-proceed
		if call, err = readRecord(conn); err != nil {
			return
		}
		_, _ = conn.Write(append(first[len(first)/2:], record(answer(binary.BigEndian.Uint32(call), 2))...))
		_, _ = readRecord(conn) // until the client closes
	})
	_, l := dial(t, addr, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-half
		cancel()
	}()
	err := l.Exchange(ctx, 1, wantWord(1))
	var te *transport.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &te) || te.Fate != transport.Unknown {
		t.Fatalf("a call that is given up: %v", err)
	}
	close(proceed)
	if err := l.Exchange(t.Context(), 2, wantWord(2)); err != nil {
		t.Error(err)
	}
}

// TestIdleLinkEnds: a link that nobody uses notices its end.
func TestIdleLinkEnds(t *testing.T) {
	proceed := make(chan struct{})
	addr := scripted(t, func(conn net.Conn) {
		if call, err := readRecord(conn); err == nil {
			_, _ = conn.Write(record(answer(binary.BigEndian.Uint32(call), 1)))
		}
		<-proceed
	})
	_, l := dial(t, addr, Config{})
	if err := l.Exchange(t.Context(), 1, wantWord(1)); err != nil {
		t.Fatal(err)
	}
	close(proceed)
	<-l.Done()
}
