package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// TestCancelledInMidWrite cancels a call whose payload the socket has taken
// only in part, changes the payload, and finds that the server reads what the
// call was made with, and that the stream goes on.
func TestCancelledInMidWrite(t *testing.T) {
	const size = 16 << 20
	proceed := make(chan struct{})
	records := make(chan []byte, 8)
	addr := scripted(t, func(conn net.Conn) {
		defer close(records)
		var first [4]byte
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return
		}
		<-proceed
		b := make([]byte, binary.BigEndian.Uint32(first[:])&^lastFragment)
		for {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			records <- b
			_, _ = conn.Write(record(answer(binary.BigEndian.Uint32(b), 3)))
			if _, err := io.ReadFull(conn, first[:]); err != nil {
				return
			}
			b = make([]byte, binary.BigEndian.Uint32(first[:])&^lastFragment)
		}
	})
	d, l := dial(t, addr, Config{MaxRecord: 64 << 20})
	a := memtest.Arena(t, size)
	want := bytes.Repeat([]byte("payload."), size/8)
	copy(a.Bytes(), want)
	bulk := func() *transport.Call {
		c := nullCall()
		c.Send = []mem.Vec{{a.Seg(0, size/2), a.Seg(size/2, size/2)}}
		c.Args = func(w *xdr.Writer) { w.Payload(0); w.Uint32(77) }
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	leader := make(chan error, 1)
	go func() { leader <- l.Exchange(ctx, 1, bulk()) }()
	blocked(t, l.(*link), 1)
	// A second call queues behind it, and is cancelled there.
	queued := make(chan error, 1)
	ctx2, cancel2 := context.WithCancel(t.Context())
	go func() { queued <- l.Exchange(ctx2, 2, bulk()) }()
	blocked(t, l.(*link), 2)
	cancel2()
	var e *transport.Error
	if err := <-queued; !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Fate != transport.NotSent {
		t.Errorf("cancelled in the queue: %v", err)
	}
	third := make(chan error, 1)
	go func() { third <- l.Exchange(t.Context(), 3, wantWord(3)) }()
	blocked(t, l.(*link), 2)
	cancel()
	if err := <-leader; !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Fate != transport.Unknown {
		t.Errorf("cancelled in mid-write: %v", err)
	}
	clear(a.Bytes())
	close(proceed)
	if err := <-third; err != nil {
		t.Errorf("the call behind: %v", err)
	}
	if err := l.Exchange(t.Context(), 4, wantWord(3)); err != nil {
		t.Errorf("the call after: %v", err)
	}
	_ = l.Close()
	got := <-records
	const head = 40 // of a call with AUTH_NONE
	if binary.BigEndian.Uint32(got) != 1 || !bytes.Equal(got[head+4:head+4+size], want) || !bytes.Equal(got[head+4+size:], words(77)) {
		t.Error("the cancelled call's record was changed")
	}
	for _, xid := range []uint32{3, 4} {
		if got := <-records; binary.BigEndian.Uint32(got) != xid {
			t.Errorf("then came XID %d, want %d", binary.BigEndian.Uint32(got), xid)
		}
	}
	if s := d.Stats(); s.BadXIDs != 1 || s.Replies != 2 {
		t.Errorf("%+v", s)
	}
}

// blocked waits until n packets are being written or queued.
func blocked(t *testing.T, l *link, n int) {
	t.Helper()
	for {
		l.out.mu.Lock()
		have := len(l.out.queue)
		for _, s := range l.out.batch {
			if s.p != nil {
				have++
			}
		}
		l.out.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-l.done:
			t.Fatal(l.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// brittleConn takes what is written once it may, and breaks after left bytes.
type brittleConn struct {
	net.Conn
	begun, proceed chan struct{}
	left           int
}

func (c *brittleConn) Write(b []byte) (int, error) {
	select {
	case c.begun <- struct{}{}:
	default:
	}
	<-c.proceed
	n := min(len(b), c.left)
	c.left -= n
	if n < len(b) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// TestWrittenBeforeTheLoss has a connection break in the middle of what was
// gathered: the server may have all that was written of it in whole.
func TestWrittenBeforeTheLoss(t *testing.T) {
	var p [4]packet
	for i := range p {
		var w xdr.Writer
		oncrpc.AppendCall(&w, uint32(i), nullCall())
		p[i].pack(&w, nil)
	}
	c := &brittleConn{begun: make(chan struct{}, 1), proceed: make(chan struct{}), left: 2*p[0].size + p[0].size/2}
	var o outbox
	var sent atomic.Uint64
	broken := make(chan error, 1)
	o.init(c, &sent, func(err error) { broken <- err })
	var first sync.WaitGroup
	first.Go(func() { o.enqueue(t.Context(), &p[0]) })
	<-c.begun
	for i := range p[1:] {
		o.enqueue(t.Context(), &p[1+i])
	}
	close(c.proceed)
	first.Wait()
	if err := <-broken; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	for i, want := range []packetState{packetSent, packetSent, packetFailed, packetFailed} {
		if got := o.wait(&p[i]); got != want {
			t.Errorf("packet %d: state %d, want %d", i, got, want)
		}
	}
	o.close()
}
