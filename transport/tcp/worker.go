package tcp

import (
	"context"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// maxPayloads bounds the payloads of one reply.
const maxPayloads = 64

// worker answers calls one after the other: those of a client, or those of a
// server by the connection that the client has made.
type worker struct {
	h      transport.Handler
	out    *outbox
	leases *leases
	peer   string
	// encrypted: calls come over what ServerConfig.Upgrade has made.
	encrypted bool
	back      *backchannel // nil where there is none

	q        transport.Request
	args     xdr.Reader
	reply    xdr.Writer
	packet   packet
	payloads [maxPayloads]mem.Vec
	used     int
	lent     []mem.Seg
}

func (w *worker) init() { w.q.Lease, w.q.AddPayload = w.lease, w.addPayload }

func (w *worker) lease(n int) (mem.Seg, error) {
	s, err := w.leases.get(n)
	if err == nil {
		w.lent = append(w.lent, s)
	}
	return s, err
}

func (w *worker) addPayload(v transport.Payload) int {
	if w.used == maxPayloads {
		panic("tcp: too many payloads in one reply")
	}
	w.payloads[w.used] = v
	w.used++
	return w.used - 1
}

// serve answers one call; it takes rec. It returns false when the record is no
// call, or there is to be no reply: the connection is of no use then.
func (w *worker) serve(ctx context.Context, rec *buffer) (ok bool) {
	if ok = w.carryOut(ctx, rec); ok {
		w.out.enqueue(context.Background(), &w.packet)
		w.out.wait(&w.packet)
	}
	w.finish()
	return ok
}

// carryOut is serve up to sending the reply, which is in packet then.
func (w *worker) carryOut(ctx context.Context, rec *buffer) (ok bool) {
	w.args.Reset(rec.b, nil)
	w.reply.Reset(w.reply.Bytes(), w.payloads[:])
	w.q = transport.Request{Transport: "tcp", Peer: w.peer, Encrypted: w.encrypted, Args: &w.args, Reply: &w.reply, Lease: w.q.Lease, AddPayload: w.q.AddPayload}
	if w.back != nil {
		w.q.Back = w.back
	}
	ok = oncrpc.Serve(ctx, w.h, &w.q)
	rec.put()
	if ok {
		w.packet.pack(&w.reply, w.payloads[:])
	}
	return ok
}

// finish gives back what the call had, once the reply has been sent.
func (w *worker) finish() {
	for _, s := range w.lent {
		w.leases.put(s)
	}
	clear(w.payloads[:w.used])
	w.lent, w.used = w.lent[:0], 0
	if cap(w.reply.Bytes()) > keepHead {
		w.reply = xdr.Writer{}
	}
}
