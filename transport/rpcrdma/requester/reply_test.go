package requester

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/layout"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// paperWindow is a window that only has a key.
type paperWindow struct{ verbs.Window }

func (paperWindow) Next(mem.Seg) uint32 { return 0x77 }
func (paperWindow) Addr(mem.Seg) uint64 { return 0x7700 }

// FuzzReply hands arbitrary messages to a requester as the answer to calls of each
// kind: none may do harm, and what they claim must be within what was offered.
func FuzzReply(f *testing.F) {
	for kind := range byte(3) {
		for _, b := range recorded(f, "headers.txt", 3) {
			copy(b, words(7))
			f.Add(kind, append(b, accepted(7, 5)...))
		}
		f.Add(kind, append(words(7, 1, 9, 0, 0, 1, 3, 0x77, 5001, 0, 0x7700, 0x77, 4999, 0, 0x7700, 0x77, 0, 0, 0x7700, 0, 0),
			accepted(7, 10000)...))
		f.Add(kind, words(7, 1, 9, 1, 0, 0, 1, 1, 0x77, 28, 0, 0x7700))
		f.Add(kind, words(7, 1, 9, 4, 1, 1, 2))
		f.Add(kind, words(7, 1, 9, 4, 2))
	}
	script := newScript(f, 2, nil)
	r, a := script.r, script.arena
	spare := make([]verbs.Window, 64)
	for i := range spare {
		spare[i] = paperWindow{}
	}
	r.windows = append(r.windows, spare...)
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		n := 0
		c := calls(a, &n)[kind%3]
		s, _ := r.takeSlot(7)
		if err := r.marshal(context.Background(), s, 7, c); err != nil {
			t.Fatal(err)
		}
		copy(s.longReply.Bytes(), accepted(7, 5))
		free := script.deliver(0, b)
		replied := s.state == slotReplied
		r.useless = 0
		if replied {
			err := r.decode(s, 7, c)
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
		r.releaseLong(s)
		r.mu.Lock()
		r.putSlot(s)
		r.windows = append(r.windows[:0], spare...)
		r.mu.Unlock()
	})
}

// TestReplyTruncated cuts good replies of each kind at every byte.
func TestReplyTruncated(t *testing.T) {
	script := newScript(t, 2, nil)
	r := script.r
	n := 0
	for kind, whole := range [][]byte{
		append(words(7, 1, 9, 0, 0, 0, 0), accepted(7, 5)...),
		append(words(7, 1, 9, 0, 0, 1, 3, 1, 5001, 0, 0, 1, 4999, 0, 0, 1, 0, 0, 0, 0, 0), accepted(7, 10000)...),
		words(7, 1, 9, 1, 0, 0, 1, 1, 1, 28, 0, 0),
	} {
		for k := 0; k <= len(whole); k++ {
			for range 8 {
				r.windows = append(r.windows, paperWindow{})
			}
			c := calls(script.arena, &n)[kind]
			s, _ := r.takeSlot(7)
			if err := r.marshal(context.Background(), s, 7, c); err != nil {
				t.Fatal(err)
			}
			copy(s.longReply.Bytes(), accepted(7, 5))
			free := script.deliver(0, whole[:k])
			switch {
			case s.state != slotReplied:
				if k >= wire.EmptyLen1 {
					t.Errorf("kind %d, %d bytes: no reply to the call", kind, k)
				}
			default:
				err := r.decode(s, 7, c)
				if (err == nil) != (k == len(whole)) || k == len(whole) && kind == 1 && n != 10000 {
					t.Errorf("kind %d, %d of %d bytes: %v", kind, k, len(whole), err)
				}
			}
			// The slot takes the other buffer, so that 0 is free again.
			if s.buf == 0 {
				s.buf = free
			}
			r.releaseLong(s)
			r.mu.Lock()
			r.putSlot(s)
			r.mu.Unlock()
		}
	}
}
