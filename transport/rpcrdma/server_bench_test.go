package rpcrdma

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// benchHandler moves payloads without looking at them: procFill into the reply,
// procSum out of the call.
type benchHandler struct{}

func (benchHandler) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case procFill:
		s, err := q.Lease(int(q.Args.Uint32()))
		if err != nil {
			return transport.SystemErr
		}
		q.Reply.Payload(q.AddPayload(transport.Payload{s}))
		q.Reply.Uint32(0)
	case procSum:
		q.Reply.Uint32(uint32(len(q.Args.Data(1 << 30))))
		q.Args.Uint32()
		q.Reply.Uint32(0)
	}
	return transport.Success
}

// BenchmarkServer measures calls over loopback, one at a time and several:
// without payload, and with 1 MiB to the server (out) or from it (in).
func BenchmarkServer(b *testing.B) {
	const mib = 1 << 20
	for _, bc := range []struct {
		name  string
		bytes int64
		call  func(v mem.Vec) *transport.Call
	}{
		{"null", 0, func(mem.Vec) *transport.Call {
			return &transport.Call{Prog: 100003, Vers: 3, Proc: procNull}
		}},
		{"in", mib, func(v mem.Vec) *transport.Call { return fillCall(v, mib, new(int)) }},
		{"out", mib, func(v mem.Vec) *transport.Call {
			return &transport.Call{Prog: 100003, Vers: 3, Proc: procSum, ReplyMax: 8, Send: []transport.Payload{v},
				Args: func(w *xdr.Writer) { w.Payload(0); w.Uint32(0xbbbb) }}
		}},
	} {
		for _, depth := range []int{1, 4} {
			name := bc.name + "/depth1"
			if depth > 1 {
				name = bc.name + "/depth4"
			}
			b.Run(name, func(b *testing.B) {
				s := startServerWith(b, ServerConfig{}, benchHandler{})
				r := dialPeer(b, s.addr, nil)
				b.SetBytes(bc.bytes)
				b.ReportAllocs()
				next := make(chan uint32)
				done := make(chan error, depth)
				for i := range depth {
					c := bc.call(mem.Vec{r.arena.Seg(i*mib, mib)})
					runCalls := func() {
						for xid := range next {
							if err := r.Exchange(b.Context(), xid, c); err != nil {
								done <- err
								return
							}
						}
						done <- nil
					}
					go runCalls()
				}
				b.ResetTimer()
				for i := range b.N {
					select {
					case next <- uint32(i):
					case err := <-done:
						b.Fatal(err)
					}
				}
				close(next)
				for range depth {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
