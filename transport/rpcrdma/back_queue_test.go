package rpcrdma

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// narrowConn has the send queue that was asked for: requests that are not signaled
// keep their places until one that is completes.
type narrowConn struct {
	*scriptConn
	answered chan Header

	posting      sync.Mutex
	queue, taken int
}

func (c *narrowConn) PostSend(wrs []verbs.SendWR) (posted int, err error) {
	c.posting.Lock()
	defer c.posting.Unlock()
	for i, wr := range wrs {
		if c.taken == c.queue {
			return i, verbs.ErrQueueFull
		}
		c.taken++
		if wr.Signaled {
			c.taken = 0
		}
		if wr.Op == verbs.OpSend {
			b := make([]byte, wr.Local.Len())
			wr.Local.CopyOut(0, b)
			var h Header
			if _, err := ParseHeader(b, &h); err == nil && h.Proc == wire.ProcNoMsg {
				c.answered <- h
			}
		}
		if _, err := c.scriptConn.PostSend(wrs[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

type narrowDevice struct {
	*scriptDevice
	conn *narrowConn
}

func (d narrowDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	_, err := d.scriptDevice.Dial(ctx, to, o)
	d.conn.queue = o.SendQueue
	return d.conn, err
}

// TestBackwardReplyOfManySegments has a reply chunk of more segments than there is
// room for in the send queue.
func TestBackwardReplyOfManySegments(t *testing.T) {
	conn := &narrowConn{scriptConn: &scriptConn{}, answered: make(chan Header, 1)}
	d := NewDialer(DialerConfig{
		Device: narrowDevice{&scriptDevice{conn: conn.scriptConn}, conn}, Credits: 1, TryVersion2: true, Callbacks: newTestProgram(), StallLimit: time.Minute,
	})
	l, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	news := Header{XID: 4, Version: Version2, Proc: wire.ProcUpdProp} // settles the version
	conn.deliver(encodeHeader(&news), 0)
	lengths := make([]uint32, 240)
	for i := range lengths {
		lengths[i] = 24
	}
	h := Header{XID: 5, Version: Version2, Credits: 1, Proc: wire.ProcMsg, Lists: wire.Lists{Reply: chunkOf(lengths...)}}
	b := append(encodeHeader(&h), rpcCall(5, procList, 1200)...)
	conn.deliver(b, 0)
	select {
	case h := <-conn.answered:
		if n := h.Lists.Reply.Len(); n != 24+4800 {
			t.Errorf("%d bytes in the reply chunk", n)
		}
	case <-within(t, patience).Done():
		t.Error("no reply")
	}
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
