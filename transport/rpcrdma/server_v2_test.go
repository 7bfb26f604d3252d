package rpcrdma

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
)

func msgHeader2(xid uint32, l wire.Lists) Header {
	return Header{XID: xid, Version: Version2, Credits: 16, Proc: wire.ProcMsg, Lists: l}
}

// dialRaw2 dials and makes a first call in version 2. It returns the properties
// that the server answers with.
func dialRaw2(t *testing.T, s *serverRig) (*rawClient, Header) {
	t.Helper()
	c := dialRaw(t, s.addr, peerSizes(1024))
	c.call(msgHeader2(1, wire.Lists{}), rpcCall(1, procNull))
	props, _ := c.reply()
	if props.Proc != wire.ProcConnProp || props.Version != Version2 {
		t.Fatalf("first message of the server: %+v", props)
	}
	h, body := c.reply()
	if h.XID != 1 || h.Version != Version2 || h.Proc != wire.ProcMsg || h.Direction != wire.DirReply || h.InvHandle != 0 || h.Credits == 0 {
		t.Fatalf("reply %+v", h)
	}
	if !bytes.Equal(body, rpcAccepted(1)) {
		t.Fatalf("reply %x", body)
	}
	return c, props
}

// TestServerIntroducedFirst has a client tell its properties before anything else:
// the server announces its own, and then asks, under XIDs of their own.
func TestServerIntroducedFirst(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 8192})
	c := dialRaw(t, s.addr, nil)
	c.call(Header{XID: 9, Version: Version2, Credits: 16, Proc: wire.ProcConnProp, V2: introduction(4096, 0)}, nil)
	props, _ := c.reply()
	wantProps(t, &props, wire.ProcConnProp, "1=4096", "2=0")
	ask, _ := c.reply()
	wantProps(t, &ask, wire.ProcReqProp, "1=8192")
	if props.XID == ask.XID {
		t.Errorf("both have XID %d", ask.XID)
	}
	c.ping2(10)
}

// TestServerPropertiesGrant: a message about properties has the grant in force,
// for which there are receives, whatever its client has asked for.
func TestServerPropertiesGrant(t *testing.T) {
	s := startServer(t, ServerConfig{InlineOut: 8192})
	c := dialRaw(t, s.addr, nil)
	tell := func(want uint32, procs ...wire.Proc) {
		t.Helper()
		c.call(Header{XID: 9, Version: Version2, Credits: 100, Proc: wire.ProcConnProp, V2: introduction(4096, 0)}, nil)
		c.call(Header{XID: 9, Version: Version2, Credits: 100, Proc: wire.ProcReqProp}, nil)
		for _, proc := range procs {
			if h, _ := c.reply(); h.Proc != proc || h.Credits != want {
				t.Errorf("got %+v, want %d credits", h, want)
			}
		}
	}
	tell(1, wire.ProcConnProp, wire.ProcReqProp, wire.ProcResProp)
	c.ping2(1)
	tell(16, wire.ProcResProp)
	c.ping2(2)
}

// waitsForLock reports whether a goroutine waits for a mutex that the function locks.
func waitsForLock(function string) bool {
	b := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		if state, frames, _ := strings.Cut(g, "\n"); strings.Contains(state, "[sync.Mutex.Lock") && strings.Contains(frames, function) {
			return true
		}
	}
	return false
}

// TestServerPropertiesInOrder holds the server's properties back while its client
// asks for a smaller receive size, which they would else be taken to undo.
func TestServerPropertiesInOrder(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	order := make(chan wire.Proc, 8)
	_, conn := scriptServer(t, new(listenDevice), newTestProgram(), ServerConfig{InlineIn: 16 << 10, InlineOut: 4096}, func(wr *verbs.SendWR) {
		b := make([]byte, wr.Local.Len())
		wr.Local.CopyOut(0, b)
		var h Header
		if _, err := ParseHeader(b, &h); err != nil {
			t.Error(err)
		}
		if h.Proc == wire.ProcConnProp {
			close(held)
			<-release
		}
		order <- h.Proc
	})
	h := Header{XID: 9, Version: Version2, Credits: 16, Proc: wire.ProcConnProp, V2: introduction(4096, 0, 0)}
	conn.deliver(encodeHeader(&h), 0)
	<-held
	h = Header{XID: 10, Version: Version2, Credits: 16, Proc: wire.ProcReqProp, V2: V2{Props: propSet(prop(wire.PropReceiveSize, 4096))}}
	conn.deliver(encodeHeader(&h), 0)
	// Without order the response would be sent now.
	eventually(t, "the response waits for its turn, or is sent", func() bool { return waitsForLock("(*serverCall).sendDue") || len(order) > 0 })
	close(release)
	for _, want := range []wire.Proc{wire.ProcConnProp, wire.ProcResProp} {
		if got := <-order; got != want {
			t.Fatalf("procedure %d, want %d", got, want)
		}
	}
}

// wantFault waits for an error of version 2.
func (c *rawClient) wantFault(xid uint32, code wire.ErrCode, f wire.Fault) {
	c.t.Helper()
	h, body := c.reply()
	if h.Version != Version2 || h.Proc != wire.ProcError || h.Err != code || h.Fault != f || h.XID != xid || h.Credits == 0 || len(body) != 0 {
		c.t.Fatalf("got %+v and %d bytes, want error %d %+v", h, len(body), code, f)
	}
}

func (c *rawClient) ping2(xid uint32) {
	c.t.Helper()
	c.call(msgHeader2(xid, wire.Lists{}), rpcCall(xid, procNull))
	h, body := c.reply()
	if h.XID != xid || h.Version != Version2 || h.Proc != wire.ProcMsg || !bytes.Equal(body, rpcAccepted(xid)) {
		c.t.Fatalf("got %+v, %x", h, body)
	}
}

func values(s *wire.PropSet) (vs []string) {
	for _, p := range s.All() {
		v, _ := p.Uint32()
		vs = append(vs, fmt.Sprintf("%d=%d", p.ID, v))
	}
	return vs
}

func wantProps(t *testing.T, h *Header, proc wire.Proc, want ...string) {
	t.Helper()
	if got := values(&h.Props); h.Proc != proc || !slices.Equal(got, want) {
		t.Fatalf("procedure %d with %v, want %d with %v", h.Proc, got, proc, want)
	}
}

// TestServerVersions2 has each message answered in the version that it came in,
// on one connection, and versions that are not served by the range of those
// that are (the draft, sections 8.2 and 8.3).
func TestServerVersions2(t *testing.T) {
	t.Run("both", serveBothVersions)
	t.Run("1", serveVersion1)
	t.Run("2", serveVersion2)
}

func serveBothVersions(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c, props := dialRaw2(t, s)
	wantProps(t, &props, wire.ProcConnProp, "1=4096", "2=0")
	if props.NoChange.Has(0) || !props.NoChange.Has(1) {
		t.Errorf("not to change: %x", props.NoChange)
	}
	c.ping(2)
	c.ping2(3)
	c.send(xdrWords(4, 3, 16, 0, 0, 0, 0), nil)
	if h, _ := rawError(c); h.Version != 3 || h.Low != 1 || h.High != 2 {
		t.Errorf("answer to version 3: %+v", h)
	}
	c.ping2(5)
}

func serveVersion1(t *testing.T) {
	s := startServer(t, ServerConfig{Versions: Versions{Low: Version1, High: Version1}})
	c := dialRaw(t, s.addr, peerSizes(4096))
	for range 3 * firstReceives {
		c.send(xdrWords(6, 2, 16, 99), nil) // whatever the procedure
		if h, _ := rawError(c); h.XID != 6 || h.Version != 2 || h.Low != 1 || h.High != 1 {
			t.Fatalf("answer to version 2: %+v", h)
		}
	}
	c.ping(7)
	if n := s.Stats().VersErrors; n != 3*firstReceives {
		t.Errorf("%d version errors counted", n)
	}
}

func serveVersion2(t *testing.T) {
	s := startServer(t, ServerConfig{Versions: Versions{Low: Version2, High: Version2}})
	c, _ := dialRaw2(t, s)
	c.call(msgHeader(8, wire.Lists{}), rpcCall(8, procNull))
	if h, _ := rawError(c); h.Version != 1 || h.Low != 2 || h.High != 2 {
		t.Errorf("answer to version 1: %+v", h)
	}
	c.ping2(9)
}

// rawError waits for ERR_VERS of any version.
func rawError(c *rawClient) (h Header, ok bool) {
	c.t.Helper()
	w, ok := c.wait(verbs.OpRecv)
	if !ok {
		c.t.Fatalf("connection lost: %v", c.lost)
	}
	b := bytes.Clone(c.recvs[w.ID].Bytes()[:w.Len])
	if _, err := c.conn.PostRecv([]verbs.RecvWR{{ID: w.ID, Buf: c.recvs[w.ID]}}); err != nil {
		c.t.Fatal(err)
	}
	var r xdr.Reader
	r.Reset(b, nil)
	h.XID, h.Version, h.Credits, h.Proc, h.Err = r.Uint32(), r.Uint32(), r.Uint32(), wire.Proc(r.Uint32()), wire.ErrCode(r.Uint32())
	h.Low, h.High = r.Uint32(), r.Uint32()
	if r.End() != nil || h.Proc != wire.ProcError || h.Err != wire.ErrVers || h.Credits == 0 {
		c.t.Fatalf("got %x, want ERR_VERS", b)
	}
	return h, true
}

// TestServerFaults2 has every error of version 2 that a responder makes.
func TestServerFaults2(t *testing.T) {
	s := startServer(t, ServerConfig{InlineIn: 64 << 10})
	c, _ := dialRaw2(t, s)
	xid := uint32(100)
	call := func(body []byte, change func(h *Header)) {
		xid++
		h := msgHeader2(xid, wire.Lists{})
		change(&h)
		copy(body, xdrWords(xid))
		c.call(h, body)
	}
	chunk := func(n int) wire.Chunk { return wire.Chunk{c.bind(c.data.Slice(0, n), verbs.RemoteWrite)} }
	null := rpcCall(0, procNull)

	call(nil, func(h *Header) { h.Proc = wire.ProcDone })
	c.wantFault(xid, wire.ErrInvalProc, wire.Fault{})
	c.send(xdrWords(50, 2, 1, 2, 8, 8, 0, 0, 0), nil) // RDMA_MSGP is of version 1
	c.wantFault(50, wire.ErrInvalProc, wire.Fault{})
	call(null, func(h *Header) { h.Lists.Read = []wire.ReadSegment{{Position: 2}} })
	c.wantFault(xid, wire.ErrBadXDR, wire.Fault{})
	call(null, func(h *Header) { h.XID++ }) // another than the message's
	c.wantFault(xid+1, wire.ErrBadXDR, wire.Fault{})
	call(rpcAccepted(0), func(h *Header) {}) // a reply that is said to be a call
	c.wantFault(xid, wire.ErrBadXDR, wire.Fault{})

	call(null, func(h *Header) {
		for i := range plan.MaxReadChunks + 1 {
			h.Lists.Read = append(h.Lists.Read, wire.ReadSegment{Position: uint32(40 + 4*i), Segment: wire.Segment{Length: 4}})
		}
	})
	c.wantFault(xid, wire.ErrReadChunks, wire.Fault{Max: plan.MaxReadChunks})
	call(null, func(h *Header) { h.Lists.Write = make([]wire.Chunk, wire.MaxWriteChunks+1) })
	c.wantFault(xid, wire.ErrWriteChunks, wire.Fault{Max: wire.MaxWriteChunks})
	call(null, func(h *Header) { h.Lists.Write = []wire.Chunk{make(wire.Chunk, wire.MaxChunkSegments+1)} })
	c.wantFault(xid, wire.ErrSegments, wire.Fault{Max: wire.MaxChunkSegments})
	call(null, func(h *Header) { h.Lists.Read = make([]wire.ReadSegment, wire.MaxReadSegments+1) })
	c.wantFault(xid, wire.ErrSegments, wire.Fault{Max: wire.MaxReadSegments})

	call(rpcCall(0, procFill, 9000, 2), func(h *Header) { h.Lists.Write = []wire.Chunk{chunk(9000), chunk(8000)} })
	c.wantFault(xid, wire.ErrWriteResource, wire.Fault{Index: 2, Needed: 9000})
	// 24 bytes of RPC header and 2000 words.
	call(rpcCall(0, procList, 2000), func(h *Header) {})
	c.wantFault(xid, wire.ErrReplyResource, wire.Fault{Needed: 8024})
	call(rpcCall(0, procList, 2000), func(h *Header) {
		h.Lists.Reply = chunk(8020)
		h.InvHandle = h.Lists.Reply[0].Handle
	})
	c.wantFault(xid, wire.ErrReplyResource, wire.Fault{Needed: 8024})
	if len(c.invalidated) > 0 {
		t.Error("the key of a call that is refused is invalidated")
	}
	call(rpcCall(0, procList, 300_000), func(h *Header) { h.Lists.Reply = chunk(2 << 20) })
	c.wantFault(xid, wire.ErrSystem, wire.Fault{}) // beyond what the server ever makes

	call(nil, func(h *Header) { h.Proc, h.OptType, h.OptInfo = wire.ProcOptional, 77, []byte("what?") })
	c.wantFault(xid, wire.ErrInvalOption, wire.Fault{})
	call(null, func(h *Header) { h.Proc, h.OptType = wire.ProcOptional, 78 })
	c.wantFault(xid, wire.ErrInvalOption, wire.Fault{})

	// A client that serves no RDMA Read, by the Connection Configuration Protocol.
	b, pos := sumCall(xid, 3000)
	c.call(msgHeader2(70, wire.Lists{}), xdrWords(70, 0, 2, rfc5666.ConfigProgram, 1, 1, 0, 0, 0, 0, 4096, 4096, 0))
	if h, _ := c.reply(); h.Proc != wire.ProcMsg {
		t.Fatalf("got %+v", h)
	}
	call(b, func(h *Header) {
		h.Lists.Read = []wire.ReadSegment{{Position: pos, Segment: wire.Segment{Handle: 1, Length: 3000}}}
	})
	c.wantFault(xid, wire.ErrReadChunks, wire.Fault{})

	// Properties that are malformed are answered; the rest is not.
	c.send(xdrWords(60, 2, 1, uint32(wire.ProcUpdProp), 1, 1, 8, 0, 0), nil)
	c.wantFault(60, wire.ErrBadXDR, wire.Fault{})
	c.send(xdrWords(61, 2, 1, uint32(wire.ProcReqProp), 1, 2, 4, 3), nil)
	c.wantFault(61, wire.ErrBadXDR, wire.Fault{})
	before := s.Stats().Ignored
	for range 3 * firstReceives {
		call(nil, func(h *Header) { h.Proc, h.Direction = wire.ProcOptional, wire.DirReply })
		call(rpcAccepted(0), func(h *Header) { h.Direction = wire.DirReply })
		call(nil, func(h *Header) { h.Proc, h.Err = wire.ProcError, wire.ErrSystem })
		c.send(xdrWords(62, 2, 1, uint32(wire.ProcError), 99), nil)
		c.send(xdrWords(62, 2, 1, uint32(wire.ProcResProp), 0, 0, 0), nil)
		xid++
		c.ping2(xid)
	}
	eventually(t, "all are ignored", func() bool { return s.Stats().Ignored-before == 4*3*firstReceives })
}

// TestServerChunks2 moves data each way.
func TestServerChunks2(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c, _ := dialRaw2(t, s)
	data := testPattern(9001)
	copy(c.data.Bytes(), data)
	b, pos := sumCall(2, len(data))
	src := c.bind(c.data.Slice(0, len(data)), verbs.RemoteRead)
	c.call(msgHeader2(2, wire.Lists{Read: []wire.ReadSegment{{Position: pos, Segment: src}}}), b)
	if h, body := c.reply(); h.Proc != wire.ProcMsg || !bytes.Equal(body, rpcAccepted(2, sumReply(data)...)) {
		t.Errorf("read chunk: %+v %x", h, body)
	}

	// A long call, and a long reply.
	call := rpcCall(3, procList, 3000)
	copy(c.data.Bytes(), call)
	h := msgHeader2(3, wire.Lists{
		Read:  []wire.ReadSegment{{Position: 0, Segment: c.bind(c.data.Slice(0, len(call)), verbs.RemoteRead)}},
		Reply: wire.Chunk{c.bind(c.data.Slice(1<<20, 1<<20), verbs.RemoteWrite)},
	})
	h.Proc = wire.ProcNoMsg
	c.call(h, nil)
	back, _ := c.reply()
	if back.Proc != wire.ProcNoMsg || back.Direction != wire.DirReply || back.Lists.Reply.Len() != 24+3000*4 {
		t.Errorf("long reply: %+v", back)
	}
	if got := c.data.Slice(1<<20, 24).Bytes(); !bytes.Equal(got, rpcAccepted(3)) {
		t.Errorf("long reply %x", got)
	}
}

// TestServerInvalidates2 makes sure that only the key that a call names is
// invalidated, whatever other keys it has (the draft, section 7.2.3).
func TestServerInvalidates2(t *testing.T) {
	s := startServer(t, ServerConfig{})
	c, _ := dialRaw2(t, s)
	for i, tc := range []struct {
		name string
		pick func(l *wire.Lists) uint32
		want bool
	}{
		{"none", func(*wire.Lists) uint32 { return 0 }, false},
		{"first write chunk", func(l *wire.Lists) uint32 { return l.Write[0][0].Handle }, true},
		{"second write chunk", func(l *wire.Lists) uint32 { return l.Write[1][0].Handle }, true},
		{"reply chunk", func(l *wire.Lists) uint32 { return l.Reply[0].Handle }, true},
		{"one that the call does not have", func(l *wire.Lists) uint32 { return ^l.Reply[0].Handle }, false},
	} {
		xid := uint32(200 + i)
		w := func(at int) wire.Chunk { return wire.Chunk{c.bind(c.data.Slice(at, 4096), verbs.RemoteWrite)} }
		l := wire.Lists{Write: []wire.Chunk{w(0), w(8192)}, Reply: w(16384)}
		h := msgHeader2(xid, l)
		h.InvHandle = tc.pick(&l)
		c.invalidated = nil
		c.call(h, rpcCall(xid, procFill, 4000, 2))
		got, _ := c.reply()
		want := []uint32(nil)
		if tc.want {
			want = []uint32{h.InvHandle}
		}
		if got.Proc != wire.ProcMsg || got.Lists.Write[1].Len() != 4000 || !slices.Equal(c.invalidated, want) {
			t.Errorf("%s: %+v, invalidated %x, want %x", tc.name, got, c.invalidated, want)
		}
		// The others are as good as before.
		for _, seg := range []wire.Segment{l.Write[0][0], l.Write[1][0], l.Reply[0]} {
			if !tc.want || seg.Handle != h.InvHandle {
				c.post(verbs.SendWR{Op: verbs.OpLocalInvalidate, Signaled: true, RKey: seg.Handle})
				if _, ok := c.wait(verbs.OpLocalInvalidate); !ok {
					t.Fatalf("%s: %v", tc.name, c.lost)
				}
			}
		}
	}
	// A single key is not enough for a guess, as it is in version 1.
	c.invalidated = nil
	c.call(msgHeader2(300, wire.Lists{Reply: wire.Chunk{c.bind(c.data.Slice(0, 64<<10), verbs.RemoteWrite)}}), rpcCall(300, procList, 2000))
	if c.reply(); len(c.invalidated) > 0 {
		t.Errorf("invalidated %x unasked", c.invalidated)
	}
}

// TestServerProperties2 has the server's receive size lowered and raised by
// request, and the size of its replies follow the client's (the draft, section
// 6.2.1).
func TestServerProperties2(t *testing.T) {
	s := startServer(t, ServerConfig{InlineIn: 16 << 10, InlineOut: 16 << 10})
	c, props := dialRaw2(t, s)
	wantProps(t, &props, wire.ProcConnProp, "1=16384", "2=0")

	request := func(xid uint32, add ...func(*wire.PropSet)) Header {
		t.Helper()
		h := Header{XID: xid, Version: Version2, Credits: 16, Proc: wire.ProcReqProp, V2: V2{Props: propSet(add...)}}
		c.call(h, nil)
		got, _ := c.reply()
		if got.Proc != wire.ProcResProp || got.XID != xid {
			t.Fatalf("got %+v", got)
		}
		return got
	}
	size := func(n uint32) func(*wire.PropSet) { return prop(wire.PropReceiveSize, n) }
	disposition := func(h *Header, n int) (s string) {
		for i := range n {
			switch {
			case h.Done.Has(i) && h.Rejected.Has(i):
				s += "?"
			case h.Done.Has(i):
				s += "d"
			case h.Rejected.Has(i):
				s += "r"
			default:
				s += "-"
			}
		}
		return s
	}
	check := func(h Header, want string, other ...string) {
		t.Helper()
		if got := disposition(&h, len(want)); got != want {
			t.Fatalf("disposition %q, want %q", got, want)
		}
		wantProps(t, &h, wire.ProcResProp, other...)
	}
	check(request(1, size(16384)), "d")
	check(request(2, size(65536)), "-", "1=16384") // more than there is room for
	check(request(3, prop(77, 1), prop(wire.PropBackward, 0), prop(wire.PropBackward, 2)), "rdr")
	check(request(4, size(8192), size(4096)), "dr")
	// 1000 is less than any receiver may have.
	check(request(5, size(1000)), "-", "1=4096")

	// A receive of 4096 bytes is posted before a call is answered, so a raise takes
	// effect when as many messages have come as there may be of such, and is announced then.
	c.ping2(50)
	check(request(6, size(16384)), "-", "1=4096")
	check(request(7, size(8192)), "r") // one at a time
	var upd Header
	for xid := uint32(1000); ; xid++ {
		if xid == 2000 {
			t.Fatal("the raise is never announced")
		}
		c.call(msgHeader2(xid, wire.Lists{}), rpcCall(xid, procNull))
		h, _ := c.reply()
		if h.Proc == wire.ProcUpdProp {
			upd = h
			c.reply()
			break
		}
	}
	wantProps(t, &upd, wire.ProcUpdProp, "1=16384")
	body := rpcCall(3000, procSum, 12000)
	body = append(append(body, testPattern(12000)...), xdrWords(0xbbbb)...)
	for range 2 * s.cfg.Credits { // none of the receives is too small
		c.call(msgHeader2(3000, wire.Lists{}), body)
		if h, b := c.reply(); h.Proc != wire.ProcMsg || !bytes.Equal(b, rpcAccepted(3000, sumReply(testPattern(12000))...)) {
			t.Fatalf("got %+v", h)
		}
	}

	// Replies: 4096 bytes until the client says that it takes more.
	list := func(xid uint32, words int) Header {
		t.Helper()
		c.call(msgHeader2(xid, wire.Lists{}), rpcCall(xid, procList, uint32(words)))
		h, _ := c.reply()
		return h
	}
	fits := func(n int) int { return (n - wire.EmptyLen2 - 24) / 4 }
	sizes := func(proc wire.Proc, n uint32) {
		c.call(Header{XID: 9, Version: Version2, Credits: 16, Proc: proc, V2: V2{Props: propSet(prop(77, 5), size(n))}}, nil)
	}
	if h := list(4000, fits(4096)); h.Proc != wire.ProcMsg {
		t.Errorf("4096 bytes: %+v", h)
	}
	if h := list(4001, fits(4096)+1); h.Proc != wire.ProcError || h.Err != wire.ErrReplyResource {
		t.Errorf("4100 bytes: %+v", h)
	}
	sizes(wire.ProcConnProp, 8192)
	ask, _ := c.reply() // the server would rather send 16384
	wantProps(t, &ask, wire.ProcReqProp, "1=16384")
	if h := list(4002, fits(8192)); h.Proc != wire.ProcMsg {
		t.Errorf("8192 bytes: %+v", h)
	}
	if h := list(4003, fits(8192)+1); h.Proc != wire.ProcError {
		t.Errorf("8196 bytes: %+v", h)
	}
	c.call(Header{XID: ask.XID, Version: Version2, Credits: 16, Proc: wire.ProcResProp, V2: V2{Done: subset(0)}}, nil)
	if h := list(4004, fits(16384)); h.Proc != wire.ProcMsg {
		t.Errorf("16384 bytes: %+v", h)
	}
	sizes(wire.ProcUpdProp, 4096)
	if h := list(4005, fits(4096)+1); h.Proc != wire.ProcError {
		t.Errorf("4100 bytes after an update: %+v", h)
	}
}

// TestServerPropertyFlood: a client that asks and never takes the answers loses
// its connection, whatever it asks.
func TestServerPropertyFlood(t *testing.T) {
	p := newProps(1, 4096, 4096, wire.BackwardNone)
	var err error
	for i := range uint32(100) {
		if err = p.received((&Header{XID: i, Version: Version2, Proc: wire.ProcReqProp}).message()); err != nil {
			if i != maxPropsOut {
				t.Errorf("refused after %d", i)
			}
			break
		}
	}
	if err == nil {
		t.Error("100 requests are kept")
	}
}
