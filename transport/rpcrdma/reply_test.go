package rpcrdma

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// paperWindow is a window that only has a key.
type paperWindow struct{ verbs.Window }

func (paperWindow) Next(mem.Seg) uint32 { return 0x77 }
func (paperWindow) Addr(mem.Seg) uint64 { return 0x7700 }

// paperLink is a link without a connection: calls can be encoded, and messages
// handed to the reaper's code.
func paperLink(t testing.TB) (*link, *mem.Arena) {
	t.Helper()
	d := NewDialer(DialerConfig{Device: iwarp.Open(iwarp.Config{}), Credits: 2}).(*dialer)
	long, err := d.longBuffers()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{d: d, long: long, requester: requester{
		credits: credit.New(2), maxSGE: 8, maxPayload: d.cfg.MaxPayload, resends: maxResends, stats: &d.stats, slots: map[uint32]*slot{},
		done: make(chan struct{}), terms: plan.Terms{Version: Version1, SendInline: 4096, RecvInline: 4096},
	}}
	l.port = l
	if err := l.layOutArena(); err != nil {
		t.Fatal(err)
	}
	a, err := mem.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.freeArena(), d.Close(), a.Close(), d.cfg.Device.Close()); err != nil {
			t.Error(err)
		}
	})
	return l, a
}

// paperCalls offer nothing, a write chunk with padding, and a reply chunk.
func paperCalls(a *mem.Arena, n *int) []*transport.Call {
	list := pingCall(nil)
	list.ReplyMax = 8000
	return []*transport.Call{
		pingCall(nil),
		readCall(mem.Vec{a.Seg(0, 5001), a.Seg(8192, 5000)}, n),
		list,
	}
}

// FuzzReply hands arbitrary messages to a link as the answer to calls of each
// kind: none may do harm, and what they claim must be within what was offered.
func FuzzReply(f *testing.F) {
	for kind := range byte(3) {
		for _, b := range recorded(f, "headers.txt", 3) {
			copy(b, xdrWords(7))
			f.Add(kind, append(b, rpcAccepted(7, 5)...))
		}
		f.Add(kind, append(xdrWords(7, 1, 9, 0, 0, 1, 3, 0x77, 5001, 0, 0x7700, 0x77, 4999, 0, 0x7700, 0x77, 0, 0, 0x7700, 0, 0),
			rpcAccepted(7, 10000)...))
		f.Add(kind, xdrWords(7, 1, 9, 1, 0, 0, 1, 1, 0x77, 28, 0, 0x7700))
		f.Add(kind, xdrWords(7, 1, 9, 4, 1, 1, 2))
		f.Add(kind, xdrWords(7, 1, 9, 4, 2))
	}
	l, a := paperLink(f)
	for range 64 {
		l.windows = append(l.windows, paperWindow{})
	}
	spare := append([]verbs.Window(nil), l.windows...)
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		n := 0
		c := paperCalls(a, &n)[kind%3]
		s, _ := l.takeSlot(7)
		if err := l.marshal(context.Background(), s, 7, c); err != nil {
			t.Fatal(err)
		}
		copy(s.longReply.Bytes(), rpcAccepted(7, 5))
		wc := verbs.Completion{ID: 0, Op: verbs.OpRecv, Len: copy(l.bufs[0].Bytes(), b)}
		free := -1
		l.mu.Lock()
		l.reap(&wc)
		if len(l.repost) == 1 {
			free = int(l.repost[0].ID)
		}
		replied := s.state == slotReplied
		l.bad, l.repost, l.wakeups = 0, l.repost[:0], l.wakeups[:0]
		l.mu.Unlock()
		if replied {
			err := l.decode(s, 7, c)
			var te *transport.Error
			if err != nil && (!errors.As(err, &te) || te.Fate != transport.Answered) {
				t.Fatalf("error %v", err)
			}
			for i, p := range s.placed {
				if p != layout.Inline && p > c.Recv[i].Len()+xdr.Pad(c.Recv[i].Len()) {
					t.Fatalf("%d bytes placed in %d", p, c.Recv[i].Len())
				}
			}
			if err == nil && len(c.Recv) > 0 && n > c.Recv[0].Len() {
				t.Fatalf("%d bytes in %d", n, c.Recv[0].Len())
			}
		}
		if free < 0 || free == s.buf {
			t.Fatalf("receive buffer %d posted, %d is the slot's", free, s.buf)
		}
		// As it was: buffer 0 is the one posted.
		if free != 0 {
			s.buf = free
		}
		l.releaseLong(s)
		l.mu.Lock()
		l.putSlot(s)
		l.windows = append(l.windows[:0], spare...)
		l.mu.Unlock()
	})
}

// TestReplyTruncated cuts good replies of each kind at every byte.
func TestReplyTruncated(t *testing.T) {
	l, a := paperLink(t)
	n := 0
	for kind, whole := range [][]byte{
		append(xdrWords(7, 1, 9, 0, 0, 0, 0), rpcAccepted(7, 5)...),
		append(xdrWords(7, 1, 9, 0, 0, 1, 3, 1, 5001, 0, 0, 1, 4999, 0, 0, 1, 0, 0, 0, 0, 0), rpcAccepted(7, 10000)...),
		xdrWords(7, 1, 9, 1, 0, 0, 1, 1, 1, 28, 0, 0),
	} {
		for k := 0; k <= len(whole); k++ {
			for range 8 {
				l.windows = append(l.windows, paperWindow{})
			}
			c := paperCalls(a, &n)[kind]
			s, _ := l.takeSlot(7)
			if err := l.marshal(context.Background(), s, 7, c); err != nil {
				t.Fatal(err)
			}
			copy(s.longReply.Bytes(), rpcAccepted(7, 5))
			l.reap(&verbs.Completion{Op: verbs.OpRecv, Len: copy(l.bufs[0].Bytes(), whole[:k])})
			switch {
			case s.state != slotReplied:
				if k >= wire.EmptyLen1 {
					t.Errorf("kind %d, %d bytes: no reply to the call", kind, k)
				}
			default:
				err := l.decode(s, 7, c)
				if (err == nil) != (k == len(whole)) || k == len(whole) && kind == 1 && n != 10000 {
					t.Errorf("kind %d, %d of %d bytes: %v", kind, k, len(whole), err)
				}
			}
			// The slot takes the other buffer, so that 0 is free again.
			if s.buf == 0 {
				s.buf = int(l.repost[0].ID)
			}
			l.repost = l.repost[:0]
			l.releaseLong(s)
			l.putSlot(s)
		}
	}
}
