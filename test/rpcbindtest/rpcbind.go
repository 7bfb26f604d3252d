// Package rpcbindtest is an rpcbind (RFC 1833, versions 3 and 4 over TCP) for
// tests: it takes and drops registrations, lists them, and answers GETADDR as
// real ones do, for the transport of the question and not the one asked about.
//
// It owns the registrations of one test. It has no UDP, no version 2 of the port
// mapper and no indirect calls, and does not record who made a registration.
//
// Start's goroutine is joined when the test ends.
package rpcbindtest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// Rpcbind is a running one. Its methods may be called from any goroutine.
type Rpcbind struct {
	Addr string

	mu   sync.Mutex
	list []wire.Rpcb
	// refuse makes SET fail.
	refuse bool
}

// Start listens at an address until the test ends.
func Start(t testing.TB, addr string) *Rpcbind {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	b := &Rpcbind{Addr: ln.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	runServe := func() {
		_ = tcp.Serve(ctx, ln, b, tcp.ServerConfig{}) // ctx's error
		close(done)
	}
	go runServe()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return b
}

// List is what is registered.
func (b *Rpcbind) List() []wire.Rpcb {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

// Refuse makes it refuse registrations from now on.
func (b *Rpcbind) Refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = true
}

// Add makes a registration of somebody else's.
func (b *Rpcbind) Add(prog, vers uint32, netid, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, wire.Rpcb{Program: prog, Version: vers, NetID: netid, Addr: addr})
}

// Replace gives the registrations of a program another address, as if its owner had
// been another from the beginning.
func (b *Rpcbind) Replace(prog uint32, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.list {
		if b.list[i].Program == prog {
			b.list[i].Addr = addr
		}
	}
}

// Serve is transport.Handler.
func (b *Rpcbind) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case q.Prog != wire.RpcbindProgram:
		return transport.ProgUnavail
	case q.Vers != wire.RpcbindV3 && q.Vers != wire.RpcbindV4:
		q.Low, q.High = wire.RpcbindV3, wire.RpcbindV4
		return transport.ProgMismatch
	}
	if q.Proc == wire.RpcbindDump {
		(&wire.RpcbList{List: b.list}).Append(q.Reply)
		return transport.Success
	}
	var e wire.Rpcb
	e.Parse(q.Args)
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	at := slices.IndexFunc(b.list, func(o wire.Rpcb) bool {
		return o.Program == e.Program && o.Version == e.Version && o.NetID == e.NetID
	})
	switch q.Proc {
	case wire.RpcbindSet:
		ok := at < 0 && !b.refuse
		if ok {
			b.list = append(b.list, e)
		}
		(&wire.SetRes{OK: ok}).Append(q.Reply)
	case wire.RpcbindUnset:
		if at >= 0 {
			b.list = slices.Delete(b.list, at, at+1)
		}
		(&wire.SetRes{OK: at >= 0}).Append(q.Reply)
	case wire.RpcbindGetAddr:
		var res wire.GetAddrRes
		for _, o := range b.list {
			if o.Program == e.Program && o.Version == e.Version && o.NetID == "tcp" {
				res.Addr = o.Addr
			}
		}
		res.Append(q.Reply)
	default:
		return transport.ProcUnavail
	}
	return transport.Success
}
