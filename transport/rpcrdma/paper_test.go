package rpcrdma

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// paperConn is a connection without a peer, all on the goroutine of a link's only caller: what is posted is done, and next
// brings messages.
type paperConn struct {
	verbs.Conn
	recvs []verbs.RecvWR
	done  []verbs.Completion
	// sent is called with each Send, reposted when receives have been posted. next returns the next message, or nil when
	// the connection is to end.
	sent     func(b []byte)
	reposted func()
	next     func() []byte
	ended    func()
}

// paperWindow is a window that only has a key.
type paperWindow struct{ verbs.Window }

func (paperWindow) Next(mem.Seg) uint32 { return 0x77 }
func (paperWindow) Addr(mem.Seg) uint64 { return 0x7700 }
func (paperWindow) Free()               {}

func (c *paperConn) NewWindow() (verbs.Window, error) { return paperWindow{}, nil }
func (c *paperConn) Close() error                     { return nil }

func (c *paperConn) PostRecv(wrs []verbs.RecvWR) (int, error) {
	c.recvs = append(c.recvs, wrs...)
	if c.reposted != nil {
		c.reposted()
	}
	return len(wrs), nil
}

func (c *paperConn) PostSend(wrs []verbs.SendWR) (int, error) {
	for _, wr := range wrs {
		if wr.Op == verbs.OpSend {
			b := make([]byte, wr.Local.Len())
			wr.Local.CopyOut(0, b)
			c.sent(b)
		}
		if wr.Signaled {
			c.done = append(c.done, verbs.Completion{ID: wr.ID, Op: wr.Op})
		}
	}
	return len(wrs), nil
}

func (c *paperConn) Wait(_ context.Context, wc []verbs.Completion) (int, error) {
	if len(c.done) > 0 {
		wc[0], c.done = c.done[0], c.done[1:]
		return 1, nil
	}
	b := c.next()
	if b == nil {
		c.ended()
		return 0, verbs.ErrClosed
	}
	r := c.recvs[0]
	c.recvs = c.recvs[1:]
	wc[0] = verbs.Completion{ID: r.ID, Op: verbs.OpRecv, Len: copy(r.Buf.Bytes(), b)}
	return 1, nil
}

// paperLink is a link over a connection without a peer: nothing but its callers receives.
func paperLink(t testing.TB, change func(*DialerConfig)) (*link, *paperConn, *mem.Arena) {
	t.Helper()
	cfg := DialerConfig{Device: iwarp.Open(iwarp.Config{}), Credits: 2}
	if change != nil {
		change(&cfg)
	}
	d := NewDialer(cfg).(*dialer)
	long, err := d.longBuffers()
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.newLink(long)
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	conn := &paperConn{ended: func() {
		if !ended {
			close(l.quiet)
			ended = true
		}
	}}
	l.conn = conn
	l.begin(plan.Terms{Version: Version1, SendInline: 4096, RecvInline: 4096})
	if err := l.postFirst(conn); err != nil {
		t.Fatal(err)
	}
	l.Connected(512, nil)
	a, err := mem.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.stall.Stop()
		if err := errors.Join(l.freeArena(), d.Close(), a.Close(), d.cfg.Device.Close()); err != nil {
			t.Error(err)
		}
	})
	return l, conn, a
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
