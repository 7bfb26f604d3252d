package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// TestBackwardCallThatChanges has a server change its call in the receive buffer while that waits to be served, as it can
// over a device with keys of whole regions (verbs.Caps). The call is served, or refused, and nothing else happens.
func TestBackwardCallThatChanges(t *testing.T) {
	conn := &scriptConn{}
	program := newTestProgram()
	d := NewDialer(DialerConfig{Device: &scriptDevice{conn: conn}, Credits: 1, CallbackCredits: 1, Callbacks: program, StallLimit: time.Minute})
	tl, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l := tl.(*link)
	deliver := func(xid, proc uint32) {
		h := Header{XID: xid, Version: Version1, Credits: 1, Proc: wire.ProcMsg}
		conn.deliver(append(encodeHeader(&h), rpcCall(xid, proc)...), 0)
	}
	deliver(5, procHold)
	<-program.holding
	deliver(6, procNull)
	queued := xdrWords(6, Version1, 1, uint32(wire.ProcMsg))
	eventually(t, "the second call waits", func() bool { return len(l.calledBack) == 1 })
	changed := false
	for _, buf := range l.bufs {
		if bytes.HasPrefix(buf.Bytes(), queued) {
			copy(buf.Bytes()[12:], xdrWords(99, 0xffffffff, 0xffffffff))
			changed = true
		}
	}
	if !changed {
		t.Error("the second call stands nowhere")
	}
	close(program.release)
	eventually(t, "both calls are answered", func() bool { return d.Stats().Callbacks == 2 })
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
