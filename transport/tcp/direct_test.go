package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// TestPlacedPayload: the payload that was read directly must stand where locate has guessed.
func TestPlacedPayload(t *testing.T) {
	a, err := mem.NewArena(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	for at, ok := range map[int]bool{4: false, 8: true, 12: false} {
		var r xdr.Reader
		r.Reset([]byte("\x00\x00\x00\x05\x00\x00\x00\x05"), []mem.Vec{{a.Seg(0, 8)}})
		r.SetLayout(&placed{at: at, n: 5})
		if word, n := r.Uint32(), r.Payload(0); word != 5 || (n == 5 && r.End() == nil) != ok {
			t.Errorf("item at 8, said to be at %d: length %d, %v", at, n, r.Err())
		}
	}
	for n, ok := range map[int]bool{4: false, 5: true, 6: false} {
		var r xdr.Reader
		r.Reset([]byte("\x00\x00\x00\x05"), []mem.Vec{{a.Seg(0, 8)}})
		r.SetLayout(&placed{at: 4, n: n})
		if got := r.Payload(0); (got == 5 && r.End() == nil) != ok {
			t.Errorf("%d bytes placed of 5: %v", n, r.Err())
		}
	}
	var r xdr.Reader
	r.Reset(nil, nil)
	r.SetLayout(&placed{at: 4, n: 5})
	if r.End() == nil {
		t.Error("bytes placed for an item that is not there were accepted")
	}
}

// bulkCall wants a word, a payload into two segments of a, and after words.
func bulkCall(a *mem.Arena, room, after int) *transport.Call {
	c := nullCall()
	c.Recv = []mem.Vec{{a.Seg(0, room/2), a.Seg(room/2, room-room/2)}}
	c.ReplyMax = 8 + 4*after
	c.Result = func(r *xdr.Reader) error {
		r.Uint32()
		r.Payload(0)
		for i := range after {
			if w := r.Uint32(); r.Err() == nil && w != uint32(100+i) {
				r.Fail("word %d after the payload is %d", i, w)
			}
		}
		return r.End()
	}
	return c
}

// bulkReply makes the reply to bulkCall.
func bulkReply(xid uint32, data []byte, after int) []byte {
	b := append(answer(xid, 9), words(uint32(len(data)))...)
	b = append(b, data...)
	b = append(b, make([]byte, xdr.Pad(len(data)))...)
	for i := range after {
		b = append(b, words(uint32(100+i))...)
	}
	return b
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8 ^ i*7)
	}
	return b
}

// TestGuess decodes replies in which the payload is where it is guessed to be,
// and others whose data was made such that the guess is wrong.
func TestGuess(t *testing.T) {
	const n, room = 20_000, 20_010
	lure := func(at int) []byte { // data in which a length stands at a byte
		b := pattern(n)
		binary.BigEndian.PutUint32(b[at:], uint32(n))
		return b
	}
	for name, tc := range map[string]struct {
		first uint32 // what stands before the payload
		data  []byte
		after int
		at    int // the guess
	}{
		"last":            {9, pattern(n), 0, 32},
		"last, padded":    {9, pattern(n - 3), 0, 32},
		"a word after it": {9, pattern(n), 1, 0},
		"a wrong guess":   {9, lure(0), 1, 36},
		"another":         {9, lure(8), 3, 44},
		// A payload that began at 28 would end with the record.
		"wrong, of four bytes more":            {n + 4, pattern(n), 0, 28},
		"wrong, with data for padding":         {n + 1, pattern(n), 0, 28},
		"wrong, with a byte of it for padding": {n + 3, pattern(n), 0, 28},
		"wrong, with padding for padding":      {n - 1, pattern(n - 7), 0, 28},
	} {
		reply := bulkReply(7, tc.data, tc.after)
		binary.BigEndian.PutUint32(reply[oncrpc.ReplyHeader:], tc.first)
		if at, _ := locate(reply[:directHead], len(reply), room); at != tc.at {
			t.Errorf("%s: guess is %d, want %d", name, at, tc.at)
		}
		addr := scripted(t, func(conn net.Conn) {
			if _, err := readRecord(conn); err == nil {
				_, _ = conn.Write(record(reply))
			}
			_, _ = io.Copy(io.Discard, conn)
		})
		_, l := dial(t, addr, Config{})
		a := memtest.Arena(t, room)
		if err := l.Exchange(t.Context(), 7, bulkCall(a, room, tc.after)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(a.Bytes()[:len(tc.data)], tc.data) {
			t.Errorf("%s: the data differ", name)
		}
	}
}

// stalled serves one reply of n bytes, the first half only until proceed is
// closed, and then answers what comes.
func stalled(n int, half chan<- struct{}, proceed <-chan struct{}) func(net.Conn) {
	return func(conn net.Conn) {
		call, err := readRecord(conn)
		if err != nil {
			return
		}
		reply := record(bulkReply(binary.BigEndian.Uint32(call), pattern(n), 0))
		_, _ = conn.Write(reply[:len(reply)/2])
		half <- struct{}{}
		<-proceed
		_, _ = conn.Write(reply[len(reply)/2:])
		for {
			call, err := readRecord(conn)
			if err != nil {
				return
			}
			_, _ = conn.Write(record(answer(binary.BigEndian.Uint32(call), 3)))
		}
	}
}

// filling waits until the link's reader has begun to read into the payload.
func filling(l *link, xid uint32) {
	for {
		l.mu.Lock()
		x := l.pending[xid]
		f := x != nil && x.filling
		l.mu.Unlock()
		if f {
			return
		}
		runtime.Gosched()
	}
}

// TestCancelledInMidReply: Exchange returns though the rest of the reply does
// not come; when it does, it changes nothing, and the link goes on.
func TestCancelledInMidReply(t *testing.T) {
	const n = 1 << 20
	half, proceed := make(chan struct{}, 1), make(chan struct{})
	addr := scripted(t, stalled(n, half, proceed))
	_, l := dial(t, addr, Config{})
	a := memtest.Arena(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Exchange(ctx, 7, bulkCall(a, n, 0)) }()
	<-half
	filling(l.(*link), 7)
	cancel()
	var e *transport.Error
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Fate != transport.Unknown {
		t.Errorf("cancelled: %v", err)
	}
	want := bytes.Repeat([]byte{0xa5}, n)
	copy(a.Bytes(), want)
	close(proceed)
	for xid := range uint32(3) {
		if err := l.Exchange(t.Context(), xid, wantWord(3)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if !bytes.Equal(a.Bytes(), want) {
		t.Error("the payload was touched after Exchange had returned")
	}
}

func TestClosedInMidReply(t *testing.T) {
	const n = 1 << 20
	half, proceed := make(chan struct{}, 1), make(chan struct{})
	addr := scripted(t, stalled(n, half, proceed))
	defer close(proceed)
	_, l := dial(t, addr, Config{})
	a := memtest.Arena(t, n)
	done := make(chan error, 1)
	go func() { done <- l.Exchange(t.Context(), 7, bulkCall(a, n, 0)) }()
	<-half
	filling(l.(*link), 7)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	var e *transport.Error
	if err := <-done; !errors.Is(err, transport.ErrClosed) || !errors.As(err, &e) || e.Fate != transport.Unknown {
		t.Errorf("closed: %v", err)
	}
}

func FuzzLocate(f *testing.F) {
	f.Add(bulkReply(7, pattern(600), 0), 20_000)
	f.Add(bulkReply(7, pattern(601), 1), 20_000)
	f.Fuzz(func(t *testing.T, reply []byte, room int) {
		if room < 0 || len(reply) < oncrpc.ReplyHeader {
			return
		}
		at, n := locate(reply[:min(len(reply), directHead)], len(reply), room)
		if at != 0 && (n < 0 || n > room || at+n+xdr.Pad(n) != len(reply)) {
			t.Fatalf("%d bytes at %d of %d, room for %d", n, at, len(reply), room)
		}
	})
}
