package rpcrdma

import (
	"context"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// How a link is the host of the calls that its server makes (RFC 8167). In version 1 they are inline, and so are their
// replies; in version 2 they may have chunks, because the client says RDMA2_BKREQSUP_GENL (the draft, section 6.2.2).

// maxBackLong bounds the bytes pulled for one such call, and those of its reply.
const maxBackLong = 64 << 10

// backCall serves calls of the server's on a link, one at a time: there are as many as credits granted.
type backCall struct {
	responder.Call
	l    *link
	recv int // the receive buffer that holds the message
	// id is the ID of its work requests, out what of them is being posted.
	id   uint64
	out  requester.Sender
	sent chan struct{} // of capacity 1
	// own is the memory for chunks, empty unless version 2 may be spoken: a call leases all of it. The long buffers of
	// forward calls are not for it, because the reply to one of those may depend on it.
	own mem.Seg
}

// backCallBytes is what each of the calls has of the link's arena: room for its message, for small payloads, for what is
// pulled, for what the handler leases, and for a long reply.
func (c *DialerConfig) backCallBytes() int { return 2*c.InlineSend + 3*c.backLong() }

// backBytes is what all of them have, with their receives.
func (c *DialerConfig) backBytes() int {
	if c.CallbackCredits == 0 {
		return 0
	}
	return c.CallbackCredits*(c.receiveSize()+c.backCallBytes()) + responder.PadRoom
}

// makeBack makes what serves the server's calls; next gives it memory.
func (l *link) makeBack(next func(n int) mem.Seg) {
	cfg := &l.d.cfg
	if cfg.CallbackCredits == 0 {
		return
	}
	l.calledBack = make(chan call, cfg.CallbackCredits)
	l.back = make([]backCall, cfg.CallbackCredits)
	l.rules = &responder.Rules{Zeros: next(responder.PadRoom)}
	for i := range l.back {
		k, n, buf := &l.back[i], cfg.InlineSend, next(cfg.backCallBytes())
		*k = backCall{l: l, id: l.backID(i), sent: make(chan struct{}, 1), own: buf.Slice(2*n, buf.Len-2*n)}
		l.stall.Add(&k.out.Deadline)
		k.Init(k, l.rules, nil, buf.Slice(0, n), buf.Slice(n, n))
	}
}

// startBack serves the server's calls until ctx, and the link, ends.
func (l *link) startBack(ctx context.Context) {
	if len(l.back) > 0 {
		l.setRules()
	}
	for i := range l.back {
		l.users.Add(1)
		go l.back[i].runBack(ctx)
	}
}

// setRules sets what holds for all calls of the server's.
func (l *link) setRules() {
	cfg, caps := &l.d.cfg, l.d.cfg.Device.Caps()
	*l.rules = responder.Rules{
		Handler: cfg.Callbacks, Provider: caps.Provider, Peer: l.conn.RemoteAddr().Addr().Unmap().String(), Versions: AllVersions,
		Log: cfg.Log.With("server", cfg.Addr), Count: &responder.Counters{},
		Unwritten: true,
		MaxPull:   cfg.backLong(), MaxReadChunks: wire.MaxReadSegments, MaxLease: cfg.backLong() + cfg.InlineSend, MaxReply: maxBackLong,
		MaxSGE: caps.MaxSGE, MaxMessage: caps.MaxMessage, Zeros: l.rules.Zeros,
	}
}

// backID is the ID of the work requests of call i of the server's.
func (l *link) backID(i int) uint64 { return l.IDs() + uint64(i) }

// runBack serves the calls that the reaper hands over, until the link ends. It
// is one of l.users.
func (k *backCall) runBack(ctx context.Context) {
	defer k.l.users.Done()
	for {
		select {
		case a := <-k.l.calledBack:
			k.run(ctx, a)
		case <-k.l.done:
			return
		}
	}
}

// call is a call of the server's as the reaper has parsed it. Nothing is parsed a second time: with region keys
// (verbs.Caps) the server can write to the receive buffer.
type call struct {
	requester.Arrived
	hdr wire.Msg
}

// run carries out the call a.
func (k *backCall) run(ctx context.Context, a call) {
	k.recv, k.Hdr, k.Pad = a.Buf, a.hdr, a.Padding
	k.SetRoom(k.l.Terms().SendInline)
	k.CarryOut(ctx, k.l.bufs[a.Buf].Bytes()[:a.Len], a.Header)
	k.Release()
}

// Readable reports whether the server serves RDMA Reads at all, by the connection and
// by the Connection Configuration Protocol. Here one at a time is outstanding.
func (k *backCall) Readable() bool {
	return k.l.readsNow() > 0
}

// Read is responder.Host's.
func (k *backCall) Read(ctx context.Context) error {
	if err := k.Post(ctx); err != nil {
		k.l.Fail(err)
		return plan.Refuse(wire.ErrSystem, wire.Fault{}, "link lost")
	}
	return nil
}

// AwaitReads is responder.Host's: Read has waited.
func (k *backCall) AwaitReads(context.Context) error { return nil }

func (k *backCall) Lend(context.Context, int) (mem.Seg, error) { return k.own, nil }

func (k *backCall) LendNow(int) (mem.Seg, error) { return mem.Seg{}, longbuf.ErrTooLarge }

func (k *backCall) TakeBack(mem.Seg) {}

// Grant is responder.Host's.
func (k *backCall) Grant() (credits int, err error) {
	k.l.d.stats.callbacks.Add(1)
	_, err = k.l.conn.PostRecv([]verbs.RecvWR{k.l.receive(k.recv)})
	return k.l.d.cfg.CallbackCredits, err
}

// Post posts k.WRs and waits until they are done, groupWRs at a time: unsignaled requests
// that fill the send queue would complete without waking anybody.
func (k *backCall) Post(ctx context.Context) error {
	for rest := k.WRs; len(rest) > 0; rest = rest[len(k.out.WRs):] {
		k.out.WRs = rest[:min(len(rest), groupWRs)]
		for i := range k.out.WRs {
			k.out.WRs[i].ID = k.id
		}
		k.out.WRs[len(k.out.WRs)-1].Signaled = true
		if _, err := k.l.Post(ctx, &k.out, nil); err != nil {
			return err
		}
		if err := k.awaitSent(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitSent waits for the completion asked for last, or the end of the link.
func (k *backCall) awaitSent(ctx context.Context) error {
	k.l.stall.Set(ctx, &k.out.Deadline)
	defer k.out.Deadline.Clear()
	k.l.turn.Expect()
	defer k.l.turn.Unexpect()
	select {
	case <-k.sent:
		return nil
	case <-k.l.done:
		return errLinkDead
	}
}

// Abandon is responder.Host's.
func (k *backCall) Abandon(_ context.Context, err error) { k.l.Fail(err) }
