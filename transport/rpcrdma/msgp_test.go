package rpcrdma

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// padded puts as many zeros behind b, which starts at the given offset of its
// message, as bring its end to a multiple of align.
func padded(b []byte, at, align int) []byte {
	for (at+len(b))%align != 0 {
		b = append(b, 0)
	}
	return b
}

// TestServerPadded has the responder take padded calls: data below the threshold
// and from it on, of any alignment, beside chunks.
func TestServerPadded(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	xid := uint32(0)
	for _, align := range []int{0, 1, 2, 4, 24, 64, 1000, 2048} {
		for _, n := range []int{0, 1, 99, 100, 101, 1024} {
			for _, write := range []bool{false, true} {
				xid++
				var l wire.Lists
				if write {
					l.Write = []wire.Chunk{{c.bind(c.data.Slice(0, 10), verbs.RemoteWrite)}}
				}
				h := Header{XID: xid, Version: 1, Credits: 4, Proc: wire.ProcMsgP, Align: uint32(align), Threshold: 100, Lists: l}
				at := len(encodeHeader(&h))
				want := testPattern(n)
				body := rpcCall(xid, procSum, uint32(n))
				if n >= 100 && align > 0 {
					body = padded(body, at, align)
					if (at+len(body))%align != 0 {
						t.Fatal("not aligned")
					}
				}
				body = append(append(body, want...), make([]byte, xdr.Pad(n))...)
				c.call(h, append(body, xdrWords(0xbbbb)...))
				if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(xid, sumReply(want)...)) {
					t.Errorf("align %d, %d bytes, write list %v: %x", align, n, write, got)
				}
			}
		}
	}
	// A payload that is a read chunk is not padded.
	want := testPattern(5000)
	copy(c.data.Bytes(), want)
	body, pos := sumCall(7, len(want))
	l := wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: c.bind(c.data.Slice(0, len(want)), verbs.RemoteRead)}}}
	c.call(Header{XID: 7, Version: 1, Credits: 4, Proc: wire.ProcMsgP, Align: 64, Threshold: 100, Lists: l}, body)
	if _, got := c.reply(); !bytes.Equal(got, rpcAccepted(7, sumReply(want)...)) {
		t.Errorf("read chunk in a padded call: %x", got)
	}
}

// TestServerPaddedWrong has padding that is not there, or more than there is.
func TestServerPaddedWrong(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c := dialRaw(t, s.addr, peerSizes(4096))
	whole := append(append(rpcCall(1, procSum, 200), testPattern(200)...), xdrWords(0xbbbb)...)
	for _, align := range []uint32{64, 1000, math.MaxInt32, math.MaxUint32} {
		h := Header{XID: 1, Version: 1, Credits: 4, Proc: wire.ProcMsgP, Align: align, Threshold: 100}
		c.call(h, whole)
		if _, got := c.reply(); !bytes.Equal(got, xdrWords(1, 1, 0, 0, 0, uint32(transport.GarbageArgs))) {
			t.Errorf("align %d: %x", align, got)
		}
	}
	for n := wire.FixedLen; n < wire.EmptyLen1+wire.PadLen; n++ {
		h := Header{XID: 9, Version: 1, Credits: 4, Proc: wire.ProcMsgP, Align: 64, Threshold: 100}
		c.send(encodeHeader(&h)[:n], nil)
		c.wantError(9, wire.ErrChunk)
	}
	c.ping(2)
}

// TestRequesterTakesPadded answers with RDMA_MSGP.
func TestRequesterTakesPadded(t *testing.T) {
	for _, align := range []int{0, 4, 32, 512} {
		for _, n := range []int{1, 99, 100, 500} {
			addr := startPeer(t, peerSizes(4096), answersFirst(func(q *peerCall) []byte {
				h := Header{XID: q.XID, Version: 1, Credits: 16, Proc: wire.ProcMsgP, Align: uint32(align), Threshold: 100}
				head := encodeHeader(&h)
				body := rpcAccepted(q.XID, uint32(n))
				if n >= 100 && align > 0 {
					body = padded(body, len(head), align)
				}
				return append(append(append(head, body...), testPattern(n)...), make([]byte, xdr.Pad(n))...)
			}))
			r := dialPeer(t, addr, nil)
			v, got := mem.Vec{r.arena.Seg(0, 200), r.arena.Seg(300, 400)}, 0
			if err := r.do(within(t, patience), readCall(v, &got)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, n)
			v.CopyOut(0, b)
			if got != n || !bytes.Equal(b, testPattern(n)) {
				t.Errorf("align %d, %d bytes: %d", align, n, got)
			}
			wantAlive(t, r)
		}
	}
}

// TestRequesterPads has the requester send padded calls, and looks where their
// payload stands.
func TestRequesterPads(t *testing.T) {
	const align, threshold = 256, 600
	var mu sync.Mutex
	var at []int // where the payloads stood; negative in calls that were not padded
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Proc == wire.ProcMsgP && (q.Align != align || q.Threshold != threshold) {
				return fmt.Errorf("header %+v", q.Header)
			}
			whole := append(encodeHeader(&q.Header), q.body...)
			i := bytes.Index(whole, testPattern(400))
			mu.Lock()
			if q.Proc != wire.ProcMsgP {
				i = -i
			}
			at = append(at, i)
			mu.Unlock()
			if err := p.send(q.inline(5)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(c *DialerConfig) { c.Padding = Padding{Align: align, Threshold: threshold} })
	for _, n := range []int{599, 600, 3000, 3840} {
		v := mem.Vec{r.arena.Seg(0, 1), r.arena.Seg(10, n-1)}
		v.CopyIn(0, testPattern(n))
		if err := r.do(within(t, patience), writeCall(v)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(at) != 4 || at[0] >= 0 || at[1]%align != 0 || at[1] <= 0 || at[2]%align != 0 || at[2] <= 0 || at[3] >= 0 {
		t.Errorf("payloads at %v", at)
	}
	if st := r.d.Stats(); st.PaddedCalls != 2 || st.InlineCalls != 4 {
		t.Errorf("statistics %+v", st)
	}
}

// TestPaddedBothHalves moves payloads of all sizes with padding wanted.
func TestPaddedBothHalves(t *testing.T) {
	for _, align := range []int{8, 1000, 4096} {
		t.Run(fmt.Sprint(align), func(t *testing.T) {
			s := startServer(t, ServerConfig{InlineIn: 16384, InlineOut: 16384})
			r := dialPeer(t, s.addr, func(c *DialerConfig) {
				c.InlineSend, c.InlineRecv, c.Padding = 16384, 16384, Padding{Align: align}
			})
			testShapes(t, r)
			for n := 4000; n < 4100; n += 7 {
				v := mem.Vec{r.arena.Seg(0, n)}
				v.CopyIn(0, testPattern(n))
				var sum [2]uint32
				if err := r.do(within(t, patience), sumOf(v, &sum)); err != nil || sum != [2]uint32{uint32(n), crc32.ChecksumIEEE(testPattern(n))} {
					t.Errorf("%d bytes: %v, %v", n, sum, err)
				}
			}
			if st := r.d.Stats(); st.PaddedCalls < 15 {
				t.Errorf("%d calls padded", st.PaddedCalls)
			}
		})
	}
}

// TestPaddingRefused has a server of RFC 8166, to which RDMA_MSGP is unknown.
func TestPaddingRefused(t *testing.T) {
	var said []string
	refuse := func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			reply := q.inline(5)
			if q.Proc == wire.ProcMsgP {
				reply = xdrWords(q.XID, 1, 16, uint32(wire.ProcError), uint32(wire.ErrChunk))
			}
			if err := p.send(reply); err != nil {
				return err
			}
		}
	}
	r := dialPeer(t, startPeer(t, peerSizes(4096), refuse), func(c *DialerConfig) {
		c.Padding = Padding{Align: 64}
		c.Log = testlog.To(func(message string) { said = append(said, message) })
	})
	for range 3 {
		if err := r.do(within(t, patience), writeCall(mem.Vec{r.arena.Seg(0, 1000)})); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "RDMA_MSGP") || !strings.Contains(said[0], "ERR_CHUNK") {
		t.Errorf("said %q", said)
	}
	if st := r.d.Stats(); st.PaddedCalls != 1 || st.Replies != 3 {
		t.Errorf("statistics %+v", st)
	}
	// What is refused for another reason is not tried again.
	r = dialPeer(t, startPeer(t, peerSizes(4096), answersFirst(func(q *peerCall) []byte { return xdrWords(q.XID, 1, 16, 4, 2) })), nil)
	var re *ReplyError
	if err := r.do(within(t, patience), pingCall(nil)); !errors.As(err, &re) || re.Code != wire.ErrChunk {
		t.Errorf("got %v", err)
	}
}
