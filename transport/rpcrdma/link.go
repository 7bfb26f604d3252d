package rpcrdma

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// link is one connection to a responder: the connection, a requester on it, and the calls of the server's; it
// implements transport.Link.
type link struct {
	*requester.Requester
	connection

	// back serve, by the rules, what the reaper puts into calledBack, which has room for as
	// many calls as there are credits for. users are their goroutines.
	back       []backCall
	calledBack chan call
	rules      *responder.Rules
	users      sync.WaitGroup
	close      sync.Once

	waiting atomic.Pointer[waiting]

	// What follows is used by who has the turn alone.

	// repost are the receives to be posted again, scratch is the message that is looked at.
	repost  []verbs.RecvWR
	wc      [64]verbs.Completion
	batch   requester.Batch
	scratch wire.Msg
	// broken is a breach of the protocol that ends the link.
	broken error
}

// dial connects, with the receives for all credits posted before the peer can
// send.
func (d *dialer) dial(ctx context.Context, long *longbuf.Pool) (*link, error) {
	caps := d.cfg.Device.Caps()
	l, err := d.newLink(long)
	if err != nil {
		return nil, err
	}
	backCtx, stopBack := context.WithCancel(context.Background())
	l.atEnd = stopBack
	l.readsIn = max(1, min(readsIn, caps.MaxReadDepth))
	path := transport.PathOf(ctx, transport.Path{Remote: d.cfg.Addr, Local: d.cfg.LocalAddr})
	opts := verbs.ConnOptions{
		SendQueue: min(caps.MaxQueue, 8*d.cfg.Credits+8*plan.MaxSegments),
		RecvQueue: d.cfg.receives(),
		ReadsIn:   l.readsIn,
		ReadsOut:  d.readsOut(),
		LocalAddr: path.Local,
		Prepare:   l.postFirst,
	}
	ours := wire.PrivateData{RemoteInvalidate: caps.RemoteInvalidate, SendSize: d.cfg.InlineSend, RecvSize: d.cfg.InlineRecv}
	if b := ours.Append(nil); len(b) <= caps.MaxPrivateData {
		opts.PrivateData = b
	}
	conn, err := d.cfg.Device.Dial(ctx, path.Remote, opts)
	if err != nil {
		stopBack()
		return nil, errors.Join(err, l.freeArena())
	}
	l.conn, l.sendQueue = conn, opts.SendQueue
	// Of the device that the connection runs on, which may be another by now.
	var names verbs.Window
	if d.cfg.Device.Caps().RegionKeys {
		if names, err = conn.NewWindow(); err != nil {
			stopBack()
			return nil, errors.Join(err, conn.Close(), l.freeArena())
		}
	}
	l.begin(terms(&d.cfg, conn.PrivateData()))
	l.reads = min(d.readsOut(), conn.ReadsOut())
	d.stats.Granted.Add(1)
	if l.control != nil {
		go l.control.run()
	}
	go l.runReaper()
	l.Connected(l.sendQueue, names)
	l.startBack(backCtx)
	return l, nil
}

// newLink makes a link that is not connected.
func (d *dialer) newLink(long *longbuf.Pool) (*link, error) {
	l := &link{}
	l.prepare(d, long)
	l.waiting.Store(newWaiting())
	if err := l.layOutArena(); err != nil {
		return nil, err
	}
	return l, nil
}

// requesterRules are what the requester of l goes by.
func (l *link) requesterRules() *requester.Rules {
	cfg, caps := &l.d.cfg, l.d.cfg.Device.Caps()
	r := &requester.Rules{
		Credits: cfg.Credits, MaxSGE: caps.MaxSGE, Invalidates: caps.RemoteInvalidate, MaxPayload: cfg.MaxPayload,
		Resends: requester.MaxResends, Count: &l.d.stats.Counters, Stall: l.stall, Receive: l.receiveNext, Interrupt: l.interrupt,
	}
	if cfg.Padding.Align > 0 || cfg.ReadReplies {
		r.Corners = &requester.Corners{
			Padding: cfg.Padding, Unpadded: &l.d.noPadding, Log: cfg.Log, Peer: cfg.Addr.String(),
			ReadReplies: cfg.ReadReplies, Reads: l.readsNow, MaxMessage: caps.MaxMessage,
		}
	}
	return r
}

// terms are the inline thresholds of version 1, which follow from both sides'
// sizes (RFC 8797 section 4): 1024 when the peer announced none.
func terms(cfg *DialerConfig, private []byte) plan.Terms {
	t := plan.Terms{Version: Version1, SendInline: wire.DefaultInline, RecvInline: wire.DefaultInline, NoDDP: cfg.NoDDP, ReadReplies: cfg.ReadReplies}
	if peer, ok := wire.ParsePrivateData(private); ok {
		t.SendInline = min(cfg.InlineSend, peer.RecvSize)
		t.RecvInline = min(cfg.InlineRecv, peer.SendSize)
	}
	return t
}

// layOutArena makes the slots and buffers. A reply's buffer goes to the slot,
// whose former one is posted in its place.
func (l *link) layOutArena() error {
	cfg := &l.d.cfg
	receives := cfg.receives()
	size := cfg.receiveSize()
	a, err := mem.NewArena(linkBytes(cfg.Credits, cfg.InlineSend, size) + cfg.backBytes() + maxCtl)
	if err != nil {
		return err
	}
	region, err := cfg.Device.Register(a)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	l.arena, l.region = a, region
	off := 0
	next := func(n int) mem.Seg {
		off += n
		return a.Seg(off-n, n)
	}
	l.bufs = make([]mem.Seg, receives+cfg.Credits)
	for i := range l.bufs {
		l.bufs[i] = next(size)
	}
	var control mem.Seg
	if l.d.tries2() {
		control = next(maxCtl)
	}
	slots := make([]requester.Memory, cfg.Credits)
	for i := range slots {
		slots[i] = requester.Memory{
			Buffer: receives + i,
			Header: next(requester.HeaderLen), Call: next(cfg.InlineSend), Scratch: next(requester.ScratchLen),
		}
	}
	l.Requester = requester.New(&l.connection, l.requesterRules(), slots)
	l.turn, l.batch = l.Turn(), l.NewBatch()
	l.makeBack(next)
	if control.Len > 0 {
		l.control = newControl(&l.connection, l.backID(len(l.back)), control)
	}
	return nil
}

// readsOut is how many RDMA Reads a link will have outstanding.
func (d *dialer) readsOut() int {
	if !d.cfg.ReadReplies && d.cfg.backLong() == 0 {
		return 0
	}
	return min(readsOut, d.cfg.Device.Caps().MaxReadDepth)
}

func (l *link) freeArena() error { return errors.Join(l.region.Close(), l.arena.Close()) }

// Close ends the link and waits for the reaper and the exchanges.
func (l *link) Close() error {
	l.Fail(transport.ErrClosed)
	<-l.quiet
	if l.control != nil {
		<-l.control.ended
	}
	l.Requester.Wait()
	l.users.Wait()
	var err error
	l.close.Do(func() {
		l.stall.Stop()
		err = l.freeArena()
	})
	return err
}
