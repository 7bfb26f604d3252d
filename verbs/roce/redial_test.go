package roce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

// What a dialer of TestRedial says of its connection.
const (
	fickle   = 'f' // it may end at any moment, by either side
	faithful = 'F' // it must be granted, and its message be answered
)

// TestRedial: a dial to a listener that lives succeeds, whatever became of the
// connections before it: given up while they were set up, closed in mid-transfer by
// either side, or left by a client that vanished without a word.
func TestRedial(t *testing.T) {
	t.Run("clear", func(t *testing.T) {
		var locals []netip.Addr
		for range 4 {
			locals = append(locals, rocetest.Loopback(t))
		}
		redial(t, func(local netip.Addr) verbs.Device { return Open(Config{Local: local}) }, locals, Open(Config{}), rocetest.Loopback(t), 40)
	})
	t.Run("loss", func(t *testing.T) {
		a, b, _ := netns.RelayedHosts(t, 1500, netns.Weather{Loss: 0.05, Double: 0.02, Reorder: 0.02, Seed: 9})
		client := func(netip.Addr) verbs.Device { return elsewhere{Open(Config{}), a} }
		redial(t, client, []netip.Addr{a.IPv4}, elsewhere{Open(Config{}), b}, b.IPv4, 6)
	})
}

// redial has two goroutines dial from each of locals, rounds times.
func redial(t *testing.T, client func(local netip.Addr) verbs.Device, locals []netip.Addr, server verbs.Device, at netip.Addr, rounds int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := server.Listen(netip.AddrPortFrom(at, 0), verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var dialers, acceptors sync.WaitGroup
	acceptors.Go(func() { runFickleServer(ctx, t, l, server, &acceptors) })
	for _, local := range locals {
		d := &redialer{t: t, to: l.Addr(), open: func() verbs.Device { return client(local) }}
		d.dev = d.open()
		dialers.Go(func() {
			for n := 0; n < rounds && !t.Failed(); n++ {
				var pair sync.WaitGroup
				for range 2 {
					pair.Go(func() { d.round(ctx) })
				}
				pair.Wait()
				if rand.IntN(4) == 0 {
					d.vanish(ctx)
				}
			}
			if err := d.dev.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	dialers.Wait()
	cancel()
	acceptors.Wait()
	l.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// redialer is a client.
type redialer struct {
	t    *testing.T
	to   netip.AddrPort
	open func() verbs.Device
	dev  verbs.Device
}

// fickleLife is how long what is fickle lasts: about as long as a set-up takes.
func fickleLife() time.Duration { return rand.N(3 * time.Millisecond) }

// round makes a few connections that it gives up, and one that must come about.
func (d *redialer) round(ctx context.Context) {
	m, err := newMessages(d.dev)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer m.close(d.t)
	for range rand.IntN(3) {
		short, cancel := context.WithTimeout(ctx, fickleLife())
		if c, err := d.dev.Dial(short, d.to, m.options(fickle)); err == nil {
			_ = m.exchange(short, c) // cut off anywhere
			c.Close()
		}
		cancel()
	}
	began := time.Now()
	c, err := d.dev.Dial(ctx, d.to, m.options(faithful))
	if err != nil {
		d.t.Errorf("after %v: %v", time.Since(began), err)
		return
	}
	if err := m.exchange(ctx, c); err != nil {
		d.t.Errorf("on a new connection: %v", err)
	}
	c.Close()
}

// vanish is what a killed process is to its peer: connections of which nothing is
// heard any more, and then a new client at the same address.
func (d *redialer) vanish(ctx context.Context) {
	m, err := newMessages(d.dev)
	if err != nil {
		d.t.Error(err)
		return
	}
	c, err := d.dev.Dial(ctx, d.to, m.options(fickle))
	raw, ok := d.dev.(*device)
	if e, is := d.dev.(elsewhere); is {
		raw, ok = e.Device.(*device)
	}
	if !ok {
		d.t.Errorf("device %T", d.dev)
	}
	raw.mu.Lock()
	for _, p := range raw.ports {
		p.sock.Close()
	}
	raw.mu.Unlock()
	if err == nil {
		c.Close()
	}
	m.close(d.t)
	if err := d.dev.Close(); err != nil {
		d.t.Error(err)
	}
	d.dev = d.open()
}

func runFickleServer(ctx context.Context, t *testing.T, l verbs.Listener, dev verbs.Device, all *sync.WaitGroup) {
	for {
		r, err := l.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		all.Go(func() { serveFickle(ctx, t, r, dev) })
	}
}

// serveFickle answers one message, if it does not leave before.
func serveFickle(ctx context.Context, t *testing.T, r verbs.Request, dev verbs.Device) {
	life, cancel := ctx, context.CancelFunc(func() {})
	if p := r.PrivateData(); len(p) > 0 && p[0] == fickle {
		life, cancel = context.WithTimeout(ctx, fickleLife())
		if rand.IntN(4) == 0 {
			<-life.Done()
		}
	}
	defer cancel()
	m, err := newMessages(dev)
	if err != nil {
		t.Error(err)
		_ = r.Reject(nil)
		return
	}
	defer m.close(t)
	c, err := r.Accept(life, m.options(0))
	if err != nil {
		return // the dialer of a faithful one will tell
	}
	defer c.Close()
	if m.next(life, c, verbs.OpRecv) == nil && m.send(c) == nil {
		for err == nil { // until the client leaves
			err = m.next(life, c, verbs.OpRecv)
		}
	}
}

// messages is memory for one message each way.
type messages struct {
	arena *mem.Arena
	mr    verbs.MemoryRegion
}

const messageSize = 20000 // some packets

func newMessages(dev verbs.Device) (*messages, error) {
	a, err := mem.NewArena(2 * messageSize)
	if err != nil {
		return nil, err
	}
	mr, err := dev.Register(a)
	if err != nil {
		a.Close()
		return nil, err
	}
	return &messages{a, mr}, nil
}

func (m *messages) close(t *testing.T) {
	if err := m.mr.Close(); err != nil {
		t.Error(err)
	}
	m.arena.Close()
}

func (m *messages) options(private byte) verbs.ConnOptions {
	o := verbs.ConnOptions{SendQueue: 4, RecvQueue: 4, ReadsIn: 1, ReadsOut: 1, PrivateData: []byte{private}}
	o.Prepare = func(q verbs.QP) error {
		_, err := q.PostRecv([]verbs.RecvWR{{ID: 1, Buf: m.arena.Seg(0, messageSize)}})
		return err
	}
	return o
}

func (m *messages) send(c verbs.Conn) error {
	_, err := c.PostSend([]verbs.SendWR{{ID: 2, Op: verbs.OpSend, Local: mem.Vec{m.arena.Seg(messageSize, messageSize)}, Signaled: true}})
	return err
}

// next waits for a completion of an operation.
func (m *messages) next(ctx context.Context, c verbs.Conn, op verbs.Op) error {
	for {
		var wc [1]verbs.Completion
		n, err := c.Wait(ctx, wc[:])
		if err != nil {
			return err
		}
		if n == 1 && wc[0].Op == op {
			if op == verbs.OpRecv && wc[0].Len != messageSize {
				return fmt.Errorf("message of %d bytes", wc[0].Len)
			}
			return nil
		}
	}
}

// exchange sends a message and waits for the answer.
func (m *messages) exchange(ctx context.Context, c verbs.Conn) error {
	if err := m.send(c); err != nil {
		return err
	}
	return m.next(ctx, c, verbs.OpRecv)
}
