package verbstest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// NewPair opens two devices that can reach each other, and returns the address
// where the server may listen; with port 0 it chooses one. The suite closes both.
type NewPair func(t *testing.T) (client, server verbs.Device, addr netip.AddrPort)

const (
	recvSize  = 4096
	recvs     = 32
	recvArea  = recvs * recvSize
	arenaSize = 4 << 20
)

// end is one side: a device, its memory, and at most one connection.
type end struct {
	t     *testing.T
	name  string
	dev   verbs.Device
	arena *mem.Arena
	conn  verbs.Conn
	// queue are completions that wait returned too many of.
	queue []verbs.Completion
}

// rig is a pair of ends.
type rig struct {
	t              *testing.T
	ctx            context.Context
	pace           Pace
	client, server *end
	addr           netip.AddrPort
	flaws          []Flaw
}

func newRig(t *testing.T, newPair NewPair, p Pace, flaws []Flaw) *rig {
	before := goroutines()
	t.Cleanup(func() { checkGoroutines(t, before) })
	ctx, cancel := context.WithTimeout(context.Background(), p.Limit)
	t.Cleanup(cancel)
	c, s, addr := newPair(t)
	return &rig{t: t, ctx: ctx, pace: p, addr: addr, flaws: flaws, client: newEnd(t, "client", c), server: newEnd(t, "server", s)}
}

func newEnd(t *testing.T, name string, d verbs.Device) *end {
	a, err := mem.NewArena(arenaSize)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := d.Register(a)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{t: t, name: name, dev: d, arena: a}
	t.Cleanup(func() {
		if e.conn != nil {
			if err := e.conn.Close(); err != nil {
				t.Errorf("%s: close connection: %v", name, err)
			}
		}
		if err := mr.Close(); err != nil {
			t.Errorf("%s: close region: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("%s: close device: %v", name, err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("%s: close arena: %v", name, err)
		}
	})
	return e
}

// options has room for everything, and all receives posted.
func (e *end) options() verbs.ConnOptions {
	depth := min(16, e.dev.Caps().MaxReadDepth)
	return verbs.ConnOptions{
		SendQueue: 256, RecvQueue: recvs, ReadsIn: depth, ReadsOut: depth,
		Prepare: func(q verbs.QP) error {
			for i := range recvs {
				if _, err := q.PostRecv([]verbs.RecvWR{e.recvWR(i)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// recvWR is receive number i; its ID is i.
func (e *end) recvWR(i int) verbs.RecvWR {
	return verbs.RecvWR{ID: uint64(i), Buf: e.arena.Seg(i*recvSize, recvSize)}
}

// received is what a completed receive holds.
func (e *end) received(c verbs.Completion) []byte {
	return e.arena.Seg(int(c.ID)*recvSize, c.Len).Bytes()
}

// seg is memory beside the receives.
func (e *end) seg(off, n int) mem.Seg { return e.arena.Seg(recvArea+off, n) }

func (r *rig) listen() verbs.Listener {
	r.t.Helper()
	l, err := r.server.dev.Listen(r.addr, verbs.ListenOptions{Backlog: 4})
	if err != nil {
		r.t.Fatalf("listen: %v", err)
	}
	return l
}

// dialed is what a Dial in the background came to.
type dialed struct {
	conn verbs.Conn
	err  error
}

// runDial dials and sends the outcome.
func runDial(ctx context.Context, d verbs.Device, to netip.AddrPort, o verbs.ConnOptions, out chan<- dialed) {
	c, err := d.Dial(ctx, to, o)
	out <- dialed{c, err}
}

// connect connects both ends and sends one empty message from the client, after
// which the server may send.
func (r *rig) connect() { r.t.Helper(); r.connectWith(r.client.options(), r.server.options()) }

func (r *rig) connectWith(co, so verbs.ConnOptions) {
	r.t.Helper()
	l := r.listen()
	defer l.Close()
	out := make(chan dialed, 1)
	go runDial(r.ctx, r.client.dev, l.Addr(), co, out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatalf("accept: %v (dial: %v)", err, (<-out).err)
	}
	conn, err := req.Accept(r.ctx, so)
	d := <-out
	if d.err == nil {
		r.client.conn = d.conn
	}
	if err == nil {
		r.server.conn = conn
	}
	if err != nil || d.err != nil {
		r.t.Fatalf("dial: %v, accept: %v", d.err, err)
	}
	r.client.post(verbs.SendWR{Op: verbs.OpSend})
	if so.RecvQueue == recvs && so.Prepare != nil {
		c := r.server.next(r.ctx)
		r.server.repost(c)
	}
}

// post posts all of wr, once there is room.
func (e *end) post(wr ...verbs.SendWR) {
	e.t.Helper()
	if n, err := e.conn.PostSend(wr); n != len(wr) || err != nil {
		e.t.Fatalf("%s: posted %d of %d requests: %v", e.name, n, len(wr), err)
	}
}

func (e *end) repost(c verbs.Completion) {
	e.t.Helper()
	if _, err := e.conn.PostRecv([]verbs.RecvWR{e.recvWR(int(c.ID))}); err != nil {
		e.t.Fatalf("%s: post receive: %v", e.name, err)
	}
}

// next is the next completion.
func (e *end) next(ctx context.Context) verbs.Completion {
	e.t.Helper()
	c, err := e.tryNext(ctx)
	if err != nil {
		e.t.Fatalf("%s: wait: %v", e.name, err)
	}
	return c
}

func (e *end) tryNext(ctx context.Context) (verbs.Completion, error) {
	if len(e.queue) == 0 {
		wc := make([]verbs.Completion, 8)
		n, err := e.conn.Wait(ctx, wc)
		if err != nil {
			return verbs.Completion{}, err
		}
		if n < 1 || n > len(wc) {
			e.t.Errorf("%s: Wait returned %d completions without an error", e.name, n)
			return verbs.Completion{}, errors.New("no completion")
		}
		e.queue = wc[:n]
	}
	c := e.queue[0]
	e.queue = e.queue[1:]
	return c, nil
}

// dies waits until the connection of e is lost, with the right error.
func (e *end) dies(ctx context.Context) {
	e.t.Helper()
	for {
		_, err := e.tryNext(ctx)
		if err == nil {
			continue
		}
		var ce *verbs.ConnError
		if !errors.As(err, &ce) {
			e.t.Errorf("%s: connection ended with %v (%T), want a *ConnError", e.name, err, err)
		}
		if _, err := e.conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend}}); err == nil {
			e.t.Errorf("%s: a dead connection took a request", e.name)
		}
		return
	}
}

// bothDie waits for both ends at once: with some providers an end learns of the
// loss only while it waits.
func (r *rig) bothDie() {
	r.t.Helper()
	done := make(chan struct{})
	go runDies(r.ctx, r.server, done)
	r.client.dies(r.ctx)
	<-done
}

func runDies(ctx context.Context, e *end, done chan<- struct{}) {
	defer close(done)
	e.dies(ctx)
}

// pump is a Wait loop in the background: it keeps an end reading while the
// test works on the other.
type pump struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	// watched, when not nil, is closed when the request of that ID completes.
	mu      sync.Mutex
	id      uint64
	watched chan<- struct{}
}

// watch makes the completion of a request close out.
func (p *pump) watch(id uint64, out chan<- struct{}) {
	p.mu.Lock()
	p.id, p.watched = id, out
	p.mu.Unlock()
}

func (e *end) pump(ctx context.Context) *pump {
	ctx, cancel := context.WithCancel(ctx)
	p := &pump{cancel: cancel, done: make(chan struct{})}
	go p.runPump(ctx, e)
	return p
}

func (p *pump) runPump(ctx context.Context, e *end) {
	defer close(p.done)
	for {
		c, err := e.tryNext(ctx)
		if err != nil {
			p.err = err
			return
		}
		p.mu.Lock()
		if p.watched != nil && c.Op != verbs.OpRecv && c.ID == p.id {
			close(p.watched)
			p.watched = nil
		}
		p.mu.Unlock()
	}
}

// stop ends the pump and returns how Wait ended.
func (p *pump) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// bind makes a window on s and waits until it is bound.
func (e *end) bind(ctx context.Context, s mem.Seg, a verbs.Access) (verbs.Window, uint32, uint64) {
	e.t.Helper()
	w, err := e.conn.NewWindow()
	if err != nil {
		e.t.Fatalf("%s: new window: %v", e.name, err)
	}
	return w, e.rebind(ctx, w, s, a), w.Addr(s)
}

func (e *end) rebind(ctx context.Context, w verbs.Window, s mem.Seg, a verbs.Access) uint32 {
	e.t.Helper()
	key := w.Next(s)
	e.post(verbs.SendWR{ID: 1 << 40, Op: verbs.OpBind, Signaled: true, Window: w, Local: mem.Vec{s}, Access: a})
	if c := e.next(ctx); c.ID != 1<<40 || c.Op != verbs.OpBind {
		e.t.Fatalf("%s: bind completed as %+v", e.name, c)
	}
	return key
}

func fill(s mem.Seg, b byte) {
	p := s.Bytes()
	for i := range p {
		p[i] = b
	}
}

// pattern fills s with bytes that depend on their position.
func pattern(s mem.Seg, seed int) {
	p := s.Bytes()
	for i := range p {
		p[i] = byte(i) ^ byte(i>>8)*3 ^ byte(i>>16)*5 ^ byte(seed)
	}
}

func (e *end) wantFill(s mem.Seg, b byte, what string) {
	e.t.Helper()
	for i, c := range s.Bytes() {
		if c != b {
			e.t.Errorf("%s: byte %d of %s was changed to %#x", e.name, i, what, c)
			return
		}
	}
}

func wantEqual(t *testing.T, got, want mem.Seg, what string) {
	t.Helper()
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		for i, b := range got.Bytes() {
			if b != want.Bytes()[i] {
				t.Errorf("%s: byte %d is %#x, want %#x", what, i, b, want.Bytes()[i])
				return
			}
		}
	}
}

// goroutines counts those that are not the runtime's or the test binary's own.
func goroutines() int { return runtime.NumGoroutine() }

// checkGoroutines allows for goroutines on their last instructions: they have
// no event to wait for.
func checkGoroutines(t *testing.T, before int) {
	for deadline := time.Now().Add(time.Minute); goroutines() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b := make([]byte, 1<<20)
			b = b[:runtime.Stack(b, true)]
			t.Errorf("%d goroutines, %d before the test:\n%s", goroutines(), before, strings.TrimSpace(string(b)))
			return
		}
	}
}
