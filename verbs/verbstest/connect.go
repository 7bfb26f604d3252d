package verbstest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/rdmafs/rdmafs/verbs"
)

// shows reports whether got is want, followed by zeroes if the network adds them.
func shows(got, want []byte) bool {
	return bytes.HasPrefix(got, want) && len(bytes.TrimRight(got[len(want):], "\x00")) == 0
}

func testPrivateData(r *rig) {
	limits := min(r.client.dev.Caps().MaxPrivateData, r.server.dev.Caps().MaxPrivateData)
	co, so := r.client.options(), r.server.options()
	co.PrivateData = bytes.Repeat([]byte{0xc1}, limits)
	so.PrivateData = []byte("server")
	l := r.listen()
	defer l.Close()
	out := make(chan dialed, 1)
	go runDial(r.ctx, r.client.dev, l.Addr(), co, out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	if !shows(req.PrivateData(), co.PrivateData) {
		r.t.Errorf("request shows private data %x", req.PrivateData())
	}
	r.server.conn, err = req.Accept(r.ctx, so)
	if err != nil {
		r.t.Fatal(err)
	}
	d := <-out
	if d.err != nil {
		r.t.Fatal(d.err)
	}
	r.client.conn = d.conn
	if got := d.conn.PrivateData(); !shows(got, so.PrivateData) {
		r.t.Errorf("client sees private data %q", got)
	}
	if got := r.server.conn.PrivateData(); !shows(got, co.PrivateData) {
		r.t.Errorf("server sees private data %x", got)
	}
	if d.conn.RemoteAddr() != l.Addr() || r.server.conn.LocalAddr() != l.Addr() {
		r.t.Errorf("client connected to %v, server at %v, listener at %v",
			d.conn.RemoteAddr(), r.server.conn.LocalAddr(), l.Addr())
	}
	if req.RemoteAddr().Addr() != d.conn.LocalAddr().Addr() {
		r.t.Errorf("request from %v, client at %v", req.RemoteAddr(), d.conn.LocalAddr())
	}
}

func testReject(r *rig) {
	l := r.listen()
	defer l.Close()
	out := make(chan dialed, 1)
	go runDial(r.ctx, r.client.dev, l.Addr(), r.client.options(), out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	if !shows(req.PrivateData(), nil) {
		r.t.Errorf("private data %x out of nothing", req.PrivateData())
	}
	if err := req.Reject([]byte("full")); err != nil {
		r.t.Fatal(err)
	}
	d := <-out
	var re *verbs.RejectError
	if !errors.As(d.err, &re) {
		r.t.Fatalf("rejected dial returned %v (%T)", d.err, d.err)
	}
	if !shows(re.Private, []byte("full")) || re.Remote != l.Addr() {
		r.t.Errorf("rejection %+v", re)
	}
}

// testRejectTooMuch: a refusal with more private data than there is room for is a
// refusal all the same.
func testRejectTooMuch(r *rig) {
	l := r.listen()
	defer l.Close()
	out := make(chan dialed, 1)
	go runDial(r.ctx, r.client.dev, l.Addr(), r.client.options(), out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := req.Reject(make([]byte, r.server.dev.Caps().MaxPrivateData+1)); err == nil {
		r.t.Error("reject with private data beyond Caps succeeded")
	}
	var re *verbs.RejectError
	if d := <-out; !errors.As(d.err, &re) {
		r.t.Errorf("rejected dial returned %v (%T)", d.err, d.err)
	}
}

func testRefusedPort(r *rig) {
	l := r.listen()
	to := l.Addr()
	if err := l.Close(); err != nil {
		r.t.Fatal(err)
	}
	_, err := r.client.dev.Dial(r.ctx, to, r.client.options())
	var ce *verbs.ConnError
	var re *verbs.RejectError
	if !errors.As(err, &ce) && !errors.As(err, &re) {
		r.t.Errorf("dial to a port without a listener: %v (%T)", err, err)
	}
}

func testDialContext(r *rig) {
	l := r.listen()
	defer l.Close()
	ctx, cancel := context.WithCancel(r.ctx)
	out := make(chan dialed, 1)
	go runDial(ctx, r.client.dev, l.Addr(), r.client.options(), out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	// The peer's request is not accepted.
	cancel()
	if d := <-out; !errors.Is(d.err, context.Canceled) {
		r.t.Errorf("canceled dial returned %v", d.err)
	}
	_ = req.Reject(nil) // the peer may have left
	if _, err := r.client.dev.Dial(ctx, l.Addr(), r.client.options()); !errors.Is(err, context.Canceled) {
		r.t.Errorf("dial with an ended context returned %v", err)
	}
}

func testAcceptContext(r *rig) {
	l := r.listen()
	defer l.Close()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
		r.t.Errorf("accept with an ended context returned %v", err)
	}
	if l.Addr().Port() == 0 {
		r.t.Error("listener without a port")
	}
}

// runAcceptOne accepts and sends the error.
func runAcceptOne(ctx context.Context, l verbs.Listener, out chan<- error) {
	_, err := l.Accept(ctx)
	out <- err
}

func testListenerClose(r *rig) {
	l := r.listen()
	out := make(chan error, 1)
	go runAcceptOne(r.ctx, l, out)
	if err := l.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := <-out; !errors.Is(err, verbs.ErrClosed) {
		r.t.Errorf("accept on a closed listener returned %v", err)
	}
	if _, err := l.Accept(r.ctx); !errors.Is(err, verbs.ErrClosed) {
		r.t.Errorf("accept after close returned %v", err)
	}
	if err := l.Close(); err != nil {
		r.t.Errorf("second close: %v", err)
	}
}

// testListenerClosedFirst: a request that Accept has returned can be answered
// after its listener was closed.
func testListenerClosedFirst(r *rig) {
	for _, accept := range []bool{true, false} {
		l := r.listen()
		out := make(chan dialed, 1)
		go runDial(r.ctx, r.client.dev, l.Addr(), r.client.options(), out)
		req, err := l.Accept(r.ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			r.t.Fatal(err)
		}
		if !accept {
			if err := req.Reject(nil); err != nil {
				r.t.Errorf("reject: %v", err)
			}
			var re *verbs.RejectError
			if d := <-out; !errors.As(d.err, &re) {
				r.t.Errorf("rejected dial returned %v (%T)", d.err, d.err)
			}
			continue
		}
		conn, err := req.Accept(r.ctx, r.server.options())
		if err != nil {
			r.t.Fatalf("accept: %v", err)
		}
		r.server.conn = conn
		d := <-out
		if d.err != nil {
			r.t.Fatalf("dial: %v", d.err)
		}
		r.client.conn = d.conn
		r.client.post(verbs.SendWR{Op: verbs.OpSend})
		r.server.next(r.ctx)
		r.disconnect()
	}
}

// testListenerCloseRefuses: closing a listener refuses the requests in its
// backlog, and those that the backlog has no room for.
func testListenerCloseRefuses(r *rig) {
	const n = 8 // twice the backlog
	l := r.listen()
	out := make(chan dialed, n)
	for range n {
		go runDial(r.ctx, r.client.dev, l.Addr(), r.client.options(), out)
	}
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = req.Reject(nil) // counts as one of them
	if err := l.Close(); err != nil {
		r.t.Fatal(err)
	}
	for range n {
		d := <-out
		var re *verbs.RejectError
		var ce *verbs.ConnError
		if !errors.As(d.err, &re) && !errors.As(d.err, &ce) {
			r.t.Errorf("dial to a listener that closed returned %v (%T)", d.err, d.err)
		}
	}
}

func testPrepareError(r *rig) {
	mine := errors.New("not prepared")
	l := r.listen()
	defer l.Close()
	o := r.client.options()
	calls := 0
	o.Prepare = func(q verbs.QP) error {
		calls++
		return mine
	}
	ctx, cancel := context.WithCancel(r.ctx)
	served := make(chan struct{})
	go runRejectAll(ctx, l, served)
	if _, err := r.client.dev.Dial(r.ctx, l.Addr(), o); !errors.Is(err, mine) || calls != 1 {
		r.t.Errorf("dial returned %v after %d calls of Prepare", err, calls)
	}
	cancel()
	<-served

	out := make(chan dialed, 1)
	dctx, dcancel := context.WithCancel(r.ctx)
	defer dcancel()
	go runDial(dctx, r.client.dev, l.Addr(), r.client.options(), out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	so := r.server.options()
	so.Prepare = func(verbs.QP) error { return mine }
	if _, err := req.Accept(r.ctx, so); !errors.Is(err, mine) {
		r.t.Errorf("accept returned %v", err)
	}
	dcancel()
	if d := <-out; d.err == nil {
		d.conn.Close()
		r.t.Error("dial succeeded though the peer did not accept")
	}
}

// runRejectAll refuses what comes until ctx ends.
func runRejectAll(ctx context.Context, l verbs.Listener, done chan<- struct{}) {
	defer close(done)
	for {
		req, err := l.Accept(ctx)
		if err != nil {
			return
		}
		_ = req.Reject(nil) // the dialer may have left
	}
}

func testBadOptions(r *rig) {
	l := r.listen()
	defer l.Close()
	caps := r.client.dev.Caps()
	for name, change := range map[string]func(*verbs.ConnOptions){
		"private data": func(o *verbs.ConnOptions) { o.PrivateData = make([]byte, caps.MaxPrivateData+1) },
		"send queue":   func(o *verbs.ConnOptions) { o.SendQueue = caps.MaxQueue + 1 },
		"recv queue":   func(o *verbs.ConnOptions) { o.RecvQueue = caps.MaxQueue + 1 },
		"reads in":     func(o *verbs.ConnOptions) { o.ReadsIn = caps.MaxReadDepth + 1 },
		"reads out":    func(o *verbs.ConnOptions) { o.ReadsOut = caps.MaxReadDepth + 1 },
	} {
		o := r.client.options()
		change(&o)
		if c, err := r.client.dev.Dial(r.ctx, l.Addr(), o); err == nil {
			c.Close()
			r.t.Errorf("%s beyond Caps: dial succeeded", name)
		}
	}
	// The peer of a side that cannot accept is refused.
	out := make(chan dialed, 1)
	go runDial(r.ctx, r.client.dev, l.Addr(), r.client.options(), out)
	req, err := l.Accept(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	o := r.server.options()
	o.SendQueue = r.server.dev.Caps().MaxQueue + 1
	if c, err := req.Accept(r.ctx, o); err == nil {
		c.Close()
		r.t.Error("accept with a send queue beyond Caps succeeded")
	}
	var re *verbs.RejectError
	if d := <-out; !errors.As(d.err, &re) {
		r.t.Errorf("dial to a side that cannot accept returned %v (%T)", d.err, d.err)
	}
}

// testLocalAddr connects from the address that the device has chosen before:
// the server's may be the server's alone.
func testLocalAddr(r *rig) {
	r.connect()
	want := r.client.conn.LocalAddr().Addr()
	r.disconnect()
	o := r.client.options()
	o.LocalAddr = want
	r.connectWith(o, r.server.options())
	if got := r.client.conn.LocalAddr().Addr(); got != want {
		r.t.Errorf("connected from %v, want %v", got, want)
	}
}

func testClose(r *rig) {
	r.connect()
	p := r.client.pump(r.ctx)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := r.client.conn.Close(); err != nil {
				r.t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	<-p.done
	if !errors.Is(p.err, verbs.ErrClosed) {
		r.t.Errorf("Wait during Close returned %v", p.err)
	}
	if _, err := r.client.conn.Wait(r.ctx, make([]verbs.Completion, 1)); !errors.Is(err, verbs.ErrClosed) {
		r.t.Errorf("Wait after Close returned %v", err)
	}
	if _, err := r.client.conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend}}); !errors.Is(err, verbs.ErrClosed) {
		r.t.Errorf("PostSend after Close returned %v", err)
	}
	if _, err := r.client.conn.PostRecv([]verbs.RecvWR{r.client.recvWR(0)}); !errors.Is(err, verbs.ErrClosed) {
		r.t.Errorf("PostRecv after Close returned %v", err)
	}
	if _, err := r.client.conn.NewWindow(); err == nil {
		r.t.Error("NewWindow after Close succeeded")
	}
}

// testPeerCloses: what was received before the loss is returned before it.
func testPeerCloses(r *rig) {
	r.connect()
	const n = 5
	for i := range n {
		r.client.sendByte(byte(i))
	}
	// Once the last message has arrived the others have, too.
	wc := make([]verbs.Completion, 1)
	for i := range n {
		if _, err := r.server.conn.Wait(r.ctx, wc); err != nil {
			r.t.Fatalf("message %d: %v", i, err)
		}
		if got := r.server.received(wc[0]); len(got) != 1 || got[0] != byte(i) {
			r.t.Fatalf("message %d holds %x", i, got)
		}
	}
	r.client.conn.Close()
	r.server.dies(r.ctx)
}
