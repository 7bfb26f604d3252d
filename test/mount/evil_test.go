package mount

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// harm changes a reply on its way out. head is the transport header and what
// follows it in the same segment, and may be changed in place; the result is
// the messages to send instead.
type harm func(r *rand.Rand, head []byte, whole mem.Vec) []mem.Vec

// evil does harm to every so-manyth reply while it is armed.
type evil struct {
	mu    sync.Mutex
	rand  *rand.Rand
	every int
	count int
	done  int
	do    harm
}

// arm makes do the harm done from now on; nil ends it. It returns how much harm
// was done before.
func (e *evil) arm(every int, do harm) (done int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	done, e.done = e.done, 0
	e.every, e.do = every, do
	return done
}

func (e *evil) reply(v mem.Vec) []mem.Vec {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count++; e.do == nil || e.count%e.every != 0 {
		return []mem.Vec{v}
	}
	e.done++
	return e.do(e.rand, v[0].Bytes(), v)
}

// evilDevice is a device whose accepted connections do harm to what they send:
// a responder that believes it serves well, and does not.
type evilDevice struct {
	verbs.Device
	evil *evil
}

func (d *evilDevice) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	ln, err := d.Device.Listen(at, o)
	if err != nil {
		return nil, err
	}
	return &evilListener{ln, d.evil}, nil
}

type evilListener struct {
	verbs.Listener
	evil *evil
}

func (l *evilListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &evilRequest{r, l.evil}, nil
}

type evilRequest struct {
	verbs.Request
	evil *evil
}

func (r *evilRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	o.SendQueue *= 2 // for messages that the responder knows nothing of
	c, err := r.Request.Accept(ctx, o)
	if err != nil {
		return nil, err
	}
	return &evilConn{c, r.evil}, nil
}

type evilConn struct {
	verbs.Conn
	evil *evil
}

func (c *evilConn) PostSend(wrs []verbs.SendWR) (int, error) {
	last := &wrs[len(wrs)-1]
	if last.Op != verbs.OpSend && last.Op != verbs.OpSendInvalidate {
		return c.Conn.PostSend(wrs)
	}
	all := wrs[: len(wrs)-1 : len(wrs)-1]
	for _, v := range c.evil.reply(last.Local) {
		wr := *last
		wr.Local, wr.Signaled = v, false
		all = append(all, wr)
	}
	if len(all) > len(wrs) { // a key can be made invalid only once
		for i := len(wrs) - 1; i < len(all)-1; i++ {
			all[i].Op = verbs.OpSend
		}
	}
	all[len(all)-1].Signaled = last.Signaled
	n, err := c.Conn.PostSend(all)
	return min(n, len(wrs)), err
}

// PostAndReap does the same harm, and leaves the completions to Wait.
func (c *evilConn) PostAndReap(wrs []verbs.SendWR, _ []verbs.Completion) (posted, reaped int, err error) {
	posted, err = c.PostSend(wrs)
	return posted, 0, err
}

// The harms.

func truncated(r *rand.Rand, _ []byte, v mem.Vec) []mem.Vec {
	return []mem.Vec{v.Slice(nil, 0, r.IntN(v.Len()))}
}

func flip(r *rand.Rand, b []byte) {
	for range 1 + r.IntN(3) {
		b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
	}
}

func headerFlipped(r *rand.Rand, b []byte, v mem.Vec) []mem.Vec {
	flip(r, b[:headerEnd(b)])
	return []mem.Vec{v}
}

// rpcFlipped changes the RPC header, or with it the status behind it, of
// replies that are inline.
func rpcFlipped(r *rand.Rand, b []byte, v mem.Vec) []mem.Vec {
	const rpcHeader = 28
	if n := headerEnd(b); n < len(b) {
		flip(r, b[n:min(len(b), n+rpcHeader)])
	}
	return []mem.Vec{v}
}

func otherXID(r *rand.Rand, b []byte, v mem.Vec) []mem.Vec {
	x := r.Uint32()
	binary.BigEndian.PutUint32(b, x)
	if n := headerEnd(b); n+4 <= len(b) {
		binary.BigEndian.PutUint32(b[n:], x)
	}
	return []mem.Vec{v}
}

func duplicated(_ *rand.Rand, _ []byte, v mem.Vec) []mem.Vec { return []mem.Vec{v, v} }

func swallowed(r *rand.Rand, b []byte, v mem.Vec) []mem.Vec {
	// A message must be sent, as its completion is waited for: RDMA_DONE.
	binary.BigEndian.PutUint32(b[12:], uint32(wire.ProcDone))
	return []mem.Vec{v}
}

// lied has the lengths in the write list and reply chunk be others than those
// that were written.
func lied(r *rand.Rand, b []byte, v mem.Vec) []mem.Vec {
	parsed, _, err := wire.Parse(b, wire.AllVersions)
	m, ok := parsed.(*wire.Msg)
	if err != nil || !ok {
		return []mem.Vec{v}
	}
	lie := func(c wire.Chunk) {
		for i := range c {
			c[i].Length = []uint32{0, c[i].Length + 1, c[i].Length - 1, 1<<32 - 1, r.Uint32()}[r.IntN(5)]
		}
	}
	for _, c := range m.Lists.Write {
		lie(c)
	}
	lie(m.Lists.Reply)
	var w xdr.Writer
	m.Append(&w)
	copy(b, w.Bytes()) // of the same length: only words have changed
	return []mem.Vec{v}
}

func headerEnd(b []byte) int {
	_, n, err := wire.Parse(b, wire.AllVersions)
	if err != nil {
		return min(len(b), wire.EmptyLen1)
	}
	return n
}

// startEvil starts an embedded server whose RDMA side does harm when armed.
func startEvil(t *testing.T) (*server, *evil) {
	t.Helper()
	s := startServer(t, serverOptions{mode: 0o777})
	e := &evil{rand: rand.New(rand.NewPCG(8166, 5040)), every: 1}
	inner := iwarp.Open(iwarp.Config{})
	bad, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: s.export, Squash: nfsd.SquashNone, Async: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bad.Close(); err != nil {
			t.Errorf("evil server: %v", err)
		}
		if err := inner.Close(); err != nil {
			t.Errorf("evil device: %v", err)
		}
	})
	if s.rdma, err = bad.ListenRDMA(&evilDevice{inner, e}, "127.0.0.1:0", rpcrdma.ServerConfig{}); err != nil {
		t.Fatal(err)
	}
	return s, e
}
