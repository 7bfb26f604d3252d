package mount

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// script says what a server of version 4 answers to operation i of a compound, which is then not carried out; OK
// leaves it to the server. seen is how many operations of that kind it was asked about before.
type script func(c *wire.Compound, i, seen int) wire.Status

// scripted is a server of version 4 that answers as a script has it: it hands all else on to a real one.
type scripted struct {
	to *reconnect.Caller
	// old, if set, answers version 3 and MOUNT.
	old transport.Handler
	// silent: calls of version 4 are not answered.
	silent atomic.Bool

	mu     sync.Mutex
	script script
	seen   map[wire.Op]int
}

// startScripted serves a script in front of a server, on a TCP port of its own. old may be nil.
func startScripted(t *testing.T, to netip.AddrPort, old transport.Handler) (*scripted, int) {
	t.Helper()
	d, err := tcp.NewDialer(tcp.Config{Addr: to})
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{old: old, to: reconnect.New(d, reconnect.Config{Server: to.String(), Timeo: time.Minute}), seen: map[wire.Op]int{}}
	if err := s.to.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, serveOn(t, s, func() { _ = s.to.Close() })
}

// serveOn serves h on a TCP port of its own; end is run in the end, before h is waited for.
func serveOn(t *testing.T, h transport.Handler, end func()) int {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tcp.Serve(ctx, ln, h, tcp.ServerConfig{}) }()
	t.Cleanup(func() {
		cancel()
		if end != nil {
			end()
		}
		<-done
	})
	return ln.Addr().(*net.TCPAddr).Port
}

// play has it answer by another script from now on.
func (s *scripted) play(f script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
	clear(s.seen)
}

// refuse is a script by which each operation of a kind fails.
func refuse(op wire.Op, st wire.Status) script {
	return func(c *wire.Compound, i, _ int) wire.Status {
		if c.Ops[i].Op() == op {
			return st
		}
		return wire.OK
	}
}

// Serve implements transport.Handler.
func (s *scripted) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	switch {
	case s.old != nil && (q.Prog != wire.Program || q.Vers != wire.Version):
		return s.old.Serve(ctx, q)
	case s.silent.Load():
		<-ctx.Done()
		return transport.SystemErr
	}
	args := bytes.Clone(q.Args.Fixed(q.Args.Remaining()))
	var reply []byte
	call := &transport.Call{Prog: q.Prog, Vers: q.Vers, Proc: q.Proc, Cred: &q.Sys, ReplyMax: 2 << 20,
		Args: func(w *xdr.Writer) { w.Fixed(args) },
		Result: func(r *xdr.Reader) error {
			reply = bytes.Clone(r.Fixed(r.Remaining()))
			return r.End()
		}}
	if q.Proc == wire.ProcCompound {
		if c, i, st := s.ask(args); st != wire.OK {
			return s.cut(ctx, q, c, i, st)
		}
	}
	if err := s.to.Call(ctx, call); err != nil {
		return transport.SystemErr
	}
	q.Reply.Fixed(reply)
	return transport.Success
}

// ask finds the first operation that the script refuses.
func (s *scripted) ask(args []byte) (c *wire.Compound, at int, st wire.Status) {
	c = new(wire.Compound)
	var r xdr.Reader
	r.Reset(args, nil)
	if c.ParseArgs(&r); r.End() != nil {
		return nil, 0, wire.OK
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range c.Ops {
		seen := s.seen[o.Op()]
		s.seen[o.Op()]++
		if s.script == nil {
			continue
		}
		if st := s.script(c, i, seen); st != wire.OK {
			return c, i, st
		}
	}
	return nil, 0, wire.OK
}

// cut has the server carry out what stands before operation i, and answers that with a status.
func (s *scripted) cut(ctx context.Context, q *transport.Request, c *wire.Compound, i int, st wire.Status) transport.AcceptStat {
	all := c.Ops
	if c.Ops = all[:i]; i > 0 {
		err := s.to.Call(ctx, &transport.Call{Prog: q.Prog, Vers: q.Vers, Proc: q.Proc, Cred: &q.Sys, ReplyMax: 2 << 20,
			Args: c.AppendArgs,
			Result: func(r *xdr.Reader) error {
				c.ParseRes(r)
				return r.End()
			}})
		if err != nil {
			return transport.SystemErr
		}
		if c.Status != wire.OK {
			c.AppendRes(q.Reply)
			return transport.Success
		}
	}
	c.Ops, c.Done, c.Status = all[:i+1], i+1, st
	c.AppendRes(q.Reply)
	return transport.Success
}
