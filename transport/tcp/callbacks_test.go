package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// callOf is the record of a call with n bytes of arguments.
func callOf(xid uint32, n int) []byte {
	var w xdr.Writer
	oncrpc.AppendCall(&w, xid, &transport.Call{Prog: 1, Vers: 1, Proc: 1, Args: func(w *xdr.Writer) { w.Fixed(make([]byte, n)) }})
	return record(w.Bytes())
}

// served answers with the length of the arguments.
func served(_ context.Context, q *transport.Request) transport.AcceptStat {
	q.Reply.Uint32(uint32(len(q.Args.Fixed(q.Args.Remaining()))))
	return transport.Success
}

// TestCallWithoutHandler: a link whose client serves no calls drops those that
// come, and goes on.
func TestCallWithoutHandler(t *testing.T) {
	addr := scripted(t, func(conn net.Conn) {
		b, err := readRecord(conn)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write(append(callOf(5, 100), record(answer(binary.BigEndian.Uint32(b), 3))...))
		_, _ = readRecord(conn) // until it is closed
	})
	d, l := dial(t, addr, Config{})
	if err := l.Exchange(t.Context(), 1, wantWord(3)); err != nil {
		t.Error(err)
	}
	if s := d.Stats(); s.BadReplies != 1 || s.Callbacks != 0 {
		t.Errorf("%+v", s)
	}
}

// TestCallbacksAreBounded: of calls that are too long, or too many at a time, none
// is served, and the replies behind them come through.
func TestCallbacksAreBounded(t *testing.T) {
	const limit, concurrent = 1000, 3
	began, release := make(chan struct{}, 100), make(chan struct{})
	addr := scripted(t, func(conn net.Conn) {
		_, _ = conn.Write(callOf(1, limit))
		for xid := range uint32(concurrent) {
			_, _ = conn.Write(callOf(10+xid, 8))
		}
		for range concurrent {
			<-began
		}
		_, _ = conn.Write(callOf(20, 8)) // one too many
		b, err := readRecord(conn)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write(record(answer(binary.BigEndian.Uint32(b), 3)))
		for range concurrent {
			b, err := readRecord(conn)
			if err != nil || !bytes.Equal(b, answer(binary.BigEndian.Uint32(b), 8)) || binary.BigEndian.Uint32(b)/10 != 1 {
				t.Errorf("replied %x, %v", b, err)
			}
		}
		_, _ = conn.Write(callOf(30, limit-40)) // as long as may be
		if b, err := readRecord(conn); err != nil || !bytes.Equal(b, answer(30, limit-40)) {
			t.Errorf("replied %x, %v", b, err)
		}
	})
	d, l := dial(t, addr, Config{CallbackConcurrent: concurrent, CallbackMax: limit,
		Callbacks: handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
			began <- struct{}{}
			<-release
			return served(ctx, q)
		})})
	if err := l.Exchange(t.Context(), 1, wantWord(3)); err != nil {
		t.Error(err)
	}
	close(release)
	<-l.Done()
	if s := d.Stats(); s.BadReplies != 2 || s.Callbacks != concurrent+1 {
		t.Errorf("%+v", s)
	}
}

// TestMalformedCallbackEndsTheLink: the stream cannot be trusted any more.
func TestMalformedCallbackEndsTheLink(t *testing.T) {
	addr := scripted(t, func(conn net.Conn) {
		_, _ = conn.Write(record(words(1, 0, 2)))
		_, _ = readRecord(conn) // until it is closed
	})
	_, l := dial(t, addr, Config{Callbacks: handlerFunc(served)})
	<-l.Done()
	if !errors.Is(l.Err(), transport.ErrProtocol) {
		t.Error(l.Err())
	}
}

// TestCloseEndsCallbacks: Close waits for a handler, whose context ends.
func TestCloseEndsCallbacks(t *testing.T) {
	began, ended := make(chan struct{}), false
	addr := scripted(t, func(conn net.Conn) {
		_, _ = conn.Write(callOf(1, 8))
		_, _ = readRecord(conn) // until it is closed
	})
	_, l := dial(t, addr, Config{Callbacks: handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		if _, err := q.Lease(4096); err != nil {
			t.Error(err)
		}
		close(began)
		<-ctx.Done()
		ended = true
		return transport.Success
	})})
	<-began
	if err := l.Close(); err != nil || !ended {
		t.Errorf("%v, handler ended: %v", err, ended)
	}
}

// TestBackBusy: no more calls are made on one client than there may be, and one
// too many fails at once.
func TestBackBusy(t *testing.T) {
	seen := make(chan transport.Backchannel, 1)
	addr, _ := startServer(t, func(_ context.Context, q *transport.Request) transport.AcceptStat {
		seen <- q.Back
		return transport.Success
	}, ServerConfig{})
	held := make(chan struct{}, maxBackCalls)
	_, l := dial(t, addr, Config{CallbackConcurrent: maxBackCalls, Callbacks: handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		held <- struct{}{}
		<-ctx.Done()
		return transport.Success
	})})
	if err := l.Exchange(t.Context(), 1, nullCall()); err != nil {
		t.Fatal(err)
	}
	back := <-seen
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, maxBackCalls)
	for range maxBackCalls {
		go func() { errs <- back.Call(ctx, nullCall()) }()
	}
	for range maxBackCalls {
		<-held
	}
	var te *transport.Error
	if err := back.Call(ctx, nullCall()); !errors.Is(err, errBackBusy) || !errors.As(err, &te) || te.Fate != transport.NotSent {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range maxBackCalls {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
