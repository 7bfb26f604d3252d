package rpctest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// guard is the number of bytes around every payload that must not change.
const (
	guard  = 64
	poison = 0xa5
)

// window is room for payloads in an arena.
type window struct {
	a         *mem.Arena
	off, size int
}

// vec makes a payload of n bytes in a poisoned window, in parts segments.
func (w window) vec(n, parts int) mem.Vec {
	w.poison()
	var v mem.Vec
	at := w.off + guard
	for i := range parts {
		k := n / parts
		if i == parts-1 {
			k = n - k*(parts-1)
		}
		v = append(v, w.a.Seg(at, k))
		at += k + guard
	}
	if at > w.off+w.size {
		panic("rpctest: window too small")
	}
	return v
}

func (w window) poison() {
	b := w.a.Seg(w.off, w.size).Bytes()
	for i := range b {
		b[i] = poison
	}
}

// intact checks that the window is unchanged but for the first n bytes of v.
func (w window) intact(v mem.Vec, n int) error {
	b := w.a.Seg(w.off, w.size).Bytes()
	at := 0 // checked up to here
	check := func(to int) error {
		for ; at < to; at++ {
			if b[at] != poison {
				return fmt.Errorf("byte %d of the window was touched", at)
			}
		}
		return nil
	}
	for _, s := range v {
		if err := check(s.Off - w.off); err != nil {
			return err
		}
		k := min(n, s.Len)
		at, n = at+k, n-k
	}
	return check(len(b))
}

// caller is a transport.Caller or a transport.Backchannel.
type caller interface {
	Call(ctx context.Context, c *transport.Call) error
}

func newCall(proc uint32) *transport.Call {
	return &transport.Call{Prog: prog, Vers: vers, Proc: proc}
}

func null(ctx context.Context, c caller) error { return c.Call(ctx, newCall(procNull)) }

// echo sends n bytes as plain arguments and expects them as plain results.
func echo(ctx context.Context, c caller, n int, seed uint32) error {
	want := make([]byte, n)
	fill(want, seed)
	call := newCall(procEcho)
	call.Args = func(w *xdr.Writer) { w.Opaque(want) }
	call.ReplyMax = 4 + n + xdr.Pad(n)
	call.Result = wantOpaque(want)
	return c.Call(ctx, call)
}

func wantOpaque(want []byte) func(*xdr.Reader) error {
	return func(r *xdr.Reader) error {
		got := r.Opaque(maxData)
		if err := r.End(); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("result of %d bytes differs from the %d wanted", len(got), len(want))
		}
		return nil
	}
}

// long expects n bytes of plain results; ReplyMax is bound.
func long(ctx context.Context, c caller, n, bound int, seed uint32) error {
	want := make([]byte, n)
	fill(want, seed)
	call := newCall(procLong)
	call.Args = func(w *xdr.Writer) { w.Uint32(uint32(n)); w.Uint32(seed) }
	call.ReplyMax = 4 + bound + xdr.Pad(bound)
	call.Result = wantOpaque(want)
	return c.Call(ctx, call)
}

// put sends n bytes as a payload, preceded by more plain bytes.
func put(ctx context.Context, c caller, w window, n, parts int, seed uint32) error {
	v := w.vec(n, parts)
	data := make([]byte, n)
	fill(data, seed)
	v.CopyIn(0, data)
	call := newCall(procPut)
	call.Send = []mem.Vec{v}
	call.Args = func(w *xdr.Writer) { w.Uint32(seed); w.Payload(0); w.Uint32(5) }
	call.ReplyMax = 12
	call.Result = func(r *xdr.Reader) error {
		sum, length, crc := r.Uint32(), r.Uint32(), r.Uint32()
		if err := r.End(); err != nil {
			return err
		}
		if sum != seed+5 || length != uint32(n) || crc != crc32.ChecksumIEEE(data) {
			return fmt.Errorf("the server got %d bytes of checksum %#x and words of sum %d, want %d, %#x, %d",
				length, crc, sum, n, crc32.ChecksumIEEE(data), seed+5)
		}
		return nil
	}
	if err := c.Call(ctx, call); err != nil {
		return err
	}
	return w.intact(v, n)
}

// get expects a payload of n bytes in a longer Recv.
func get(ctx context.Context, c caller, w window, n, room, parts int, seed uint32) error {
	v := w.vec(room, parts)
	if err := c.Call(ctx, getCall(procGet, v, n, seed)); err != nil {
		return err
	}
	return gotten(w, v, n, seed)
}

func getCall(proc uint32, v mem.Vec, n int, seed uint32) *transport.Call {
	call := newCall(proc)
	call.Args = func(w *xdr.Writer) { w.Uint32(uint32(n)); w.Uint32(seed) }
	call.Recv = []mem.Vec{v}
	call.ReplyMax = 12
	call.Result = func(r *xdr.Reader) error {
		before, length, after := r.Uint32(), r.Payload(0), ^seed
		if seed&1 != 0 {
			after = r.Uint32()
		}
		if err := r.End(); err != nil {
			return err
		}
		if before != seed || length != n || after != ^seed {
			return fmt.Errorf("words %#x and %#x around %d bytes, want %#x, %#x, %d", before, after, length, seed, ^seed, n)
		}
		return nil
	}
	return call
}

// gotten checks what getCall has placed in v.
func gotten(w window, v mem.Vec, n int, seed uint32) error {
	want, got := make([]byte, n), make([]byte, n)
	fill(want, seed)
	v.CopyOut(0, got)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the %d bytes received differ from those sent", n)
	}
	return w.intact(v, n)
}

// swap sends n bytes and expects them inverted.
func swap(ctx context.Context, c caller, in, out window, n int, seed uint32) error {
	call := swapCall(in, out, n, seed)
	return swapped(c.Call(ctx, call), in, out, call)
}

func swapCall(in, out window, n int, seed uint32) *transport.Call {
	send, recv := in.vec(n, 1), out.vec(n, 1)
	data := make([]byte, n)
	fill(data, seed)
	send.CopyIn(0, data)
	call := newCall(procSwap)
	call.Send, call.Recv = []mem.Vec{send}, []mem.Vec{recv}
	call.Args = func(w *xdr.Writer) { w.Uint32(seed); w.Payload(0) }
	call.ReplyMax = 8
	call.Result = func(r *xdr.Reader) error {
		if length, word := r.Payload(0), r.Uint32(); r.End() == nil && (length != n || word != seed) {
			return fmt.Errorf("%d bytes and %#x, want %d and %#x", length, word, n, seed)
		}
		return r.Err()
	}
	return call
}

// swapped checks what swapCall has put into its Recv, given the call's error.
func swapped(err error, in, out window, call *transport.Call) error {
	if err != nil {
		return err
	}
	n := call.Send[0].Len()
	sent, got := make([]byte, n), make([]byte, n)
	call.Send[0].CopyOut(0, sent)
	call.Recv[0].CopyOut(0, got)
	for i := range got {
		if got[i] != ^sent[i] {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, n, got[i], ^sent[i])
		}
	}
	if err := in.intact(call.Send[0], n); err != nil {
		return err
	}
	return out.intact(call.Recv[0], n)
}
