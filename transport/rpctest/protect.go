package rpctest

import (
	"errors"
	"hash/crc32"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// testNoDirect has payloads travel in the messages, call by call, while others
// may be placed directly.
func testNoDirect(e *env) {
	l := e.c.Limits()
	for _, n := range sizes(min(l.MaxSend, l.MaxRecv)) {
		before := e.c.Stats()
		c := swapCall(e.wins[0], e.wins[1], n, uint32(n))
		c.NoDirect = true
		e.check(swapped(e.c.Call(e.Context(), c), e.wins[0], e.wins[1], c), "%d bytes", n)
		after := e.c.Stats()
		if after.ReadChunks != before.ReadChunks || after.WriteChunks != before.WriteChunks {
			e.Errorf("%d bytes: placed directly, %d read chunks and %d write chunks more", n,
				after.ReadChunks-before.ReadChunks, after.WriteChunks-before.WriteChunks)
		}
		e.check(swap(e.Context(), e.c, e.wins[0], e.wins[1], n, uint32(n)), "%d bytes, with direct placement", n)
	}
}

// sealed is AUTH_SYS with arguments and results protected by a checksum in front
// of them, and their bytes inverted.
type sealed struct {
	transport.AuthSys
}

func (*sealed) Protection() transport.Protection { return seal{} }

type seal struct{}

func (seal) Protect(w *xdr.Writer, args []byte) {
	w.Uint32(crc32.ChecksumIEEE(args))
	for i := range args {
		args[i] = ^args[i]
	}
	w.Opaque(args)
}

func (seal) Unprotect(body []byte) ([]byte, error) {
	var r xdr.Reader
	r.Reset(body, nil)
	sum, b := r.Uint32(), r.Opaque(len(body))
	if err := r.End(); err != nil {
		return nil, err
	}
	for i := range b {
		b[i] = ^b[i]
	}
	if crc32.ChecksumIEEE(b) != sum {
		return nil, errors.New("wrong checksum")
	}
	return b, nil
}

func (seal) Overhead() int { return 8 }

// serveSealed is procSwap for protected bodies.
func serveSealed(q *transport.Request) transport.AcceptStat {
	sum, b := q.Args.Uint32(), append([]byte(nil), q.Args.Opaque(maxData)...)
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	for i := range b {
		b[i] = ^b[i]
	}
	if crc32.ChecksumIEEE(b) != sum {
		return transport.GarbageArgs
	}
	var r xdr.Reader
	r.Reset(b, nil)
	word, d := r.Uint32(), r.Opaque(maxData)
	if r.End() != nil {
		return transport.GarbageArgs
	}
	for i := range d {
		d[i] = ^d[i]
	}
	var w xdr.Writer
	w.Opaque(d)
	w.Uint32(word)
	seal{}.Protect(q.Reply, w.Bytes())
	return transport.Success
}

// testProtected: the payloads of a protected call are part of its protected
// bodies, however the transport carries those.
func testProtected(e *env) {
	l := e.c.Limits()
	for _, n := range sizes(min(l.MaxSend, l.MaxRecv) / 2) {
		before := e.c.Stats()
		c := swapCall(e.wins[0], e.wins[1], n, uint32(n))
		c.Proc, c.Cred = procSeal, &sealed{}
		e.check(swapped(e.c.Call(e.Context(), c), e.wins[0], e.wins[1], c), "%d bytes", n)
		after := e.c.Stats()
		if after.ReadChunks != before.ReadChunks || after.WriteChunks != before.WriteChunks {
			e.Errorf("%d bytes were placed directly", n)
		}
	}
}
