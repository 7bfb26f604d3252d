package rpctest

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxItems bounds the payloads of procMany.
const maxItems = 8

// serveMany is procMany: plain words, and payloads with a word after each, which
// come back inverted, with a word after each again.
func serveMany(q *transport.Request) transport.AcceptStat {
	a, w := q.Args, q.Reply
	for range a.Count(1 << 16) {
		a.Uint32()
	}
	for n := a.Count(maxItems); n > 0 && a.Err() == nil; n-- {
		d := a.Data(maxData)
		s, err := q.Lease(len(d))
		if err != nil {
			return transport.SystemErr
		}
		for i, c := range d {
			s.Bytes()[i] = ^c
		}
		w.Payload(q.AddPayload(mem.Vec{s}))
		w.Uint32(^a.Uint32())
	}
	return transport.Success
}

// many sends plain words, and payloads of the lengths given, and expects these
// inverted, each in a Recv that is longer by room bytes.
func many(ctx context.Context, c transport.Caller, wins []window, lens []int, room, words int) error {
	call := newCall(procMany)
	for i, n := range lens {
		v := wins[2*i].vec(n, 1+i%3)
		data := make([]byte, n)
		fill(data, uint32(i))
		v.CopyIn(0, data)
		call.Send = append(call.Send, v)
		call.Recv = append(call.Recv, wins[2*i+1].vec(n+room, 3-i%3))
	}
	call.Args = func(w *xdr.Writer) {
		w.Uint32(uint32(words))
		for i := range words {
			w.Uint32(uint32(i))
		}
		w.Uint32(uint32(len(lens)))
		for i := range lens {
			w.Payload(i)
			w.Uint32(uint32(i))
		}
	}
	call.ReplyMax = 8 * len(lens)
	call.Result = func(r *xdr.Reader) error {
		for i, n := range lens {
			if got, word := r.Payload(i), r.Uint32(); r.Err() == nil && (got != n || word != ^uint32(i)) {
				return fmt.Errorf("payload %d: %d bytes and %#x, want %d and %#x", i, got, word, n, ^uint32(i))
			}
		}
		return r.End()
	}
	if err := c.Call(ctx, call); err != nil {
		return err
	}
	for i, n := range lens {
		want, got := make([]byte, n), make([]byte, n)
		fill(want, uint32(i))
		call.Recv[i].CopyOut(0, got)
		for j := range got {
			if got[j] != ^want[j] {
				return fmt.Errorf("payload %d: byte %d of %d is %#x, want %#x", i, j, n, got[j], ^want[j])
			}
		}
		if err := wins[2*i].intact(call.Send[i], n); err != nil {
			return err
		}
		if err := wins[2*i+1].intact(call.Recv[i], n); err != nil {
			return err
		}
	}
	return nil
}

func testMany(e *env) {
	wins := e.split(2 * maxItems)
	for _, lens := range [][]int{
		{0, 0}, {1, 2, 3}, {0, 5000, 0, 6001}, {40_000, 1}, {1, 40_000}, {5001, 5002, 5003, 5004}, {300, 300, 300, 9000},
		{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007}, {20_000, 20_001, 20_002, 20_003, 20_004},
	} {
		for _, room := range []int{0, 5003} {
			for _, words := range []int{0, 20_000} {
				e.check(many(e.Context(), e.c, wins, lens, room, words), "payloads of %v, room for %d more, after %d words", lens, room, words)
			}
		}
	}
}
