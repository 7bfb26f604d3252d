package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/turn"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// link is one connection to a responder: a requester, what it needs of its connection, and the calls of the server's; it
// implements transport.Link.
type link struct {
	requester
	d    *dialer
	conn verbs.Conn
	long *longbuf.Pool
	// readsIn is how many RDMA Reads are served here, reads how many the peer
	// serves; mu guards that until Dial has returned.
	readsIn, reads int

	// arena holds the slots' buffers and the receive buffers.
	arena  *mem.Arena
	region verbs.MemoryRegion
	bufs   []mem.Seg

	// back serve, by the rules, what the reaper puts into calledBack, which has room for as
	// many calls as there are credits for; stopBack ends their context.
	back       []backCall
	calledBack chan call
	rules      *rules
	stopBack   context.CancelFunc
	close      sync.Once

	// repost and wc are used by who has the turn alone.
	repost []verbs.RecvWR
	wc     [64]verbs.Completion

	waiting atomic.Pointer[waiting]

	// control is nil on a link that begins, and stays, in version 1.
	control *control

	// What follows is guarded by requester.mu.

	version versionState
	// broken is a breach of the protocol that ends the link.
	broken error
	// room is closed at the next completion; nil when nobody waits for it.
	room chan struct{}
	// granted: an answer that was no error has come.
	granted bool
}

// maxBad is how many messages in a row may be of no use before the peer is
// given up.
const maxBad = 32

// Completions of slots carry their index and one bit.
func sendID(s *slot) uint64       { return uint64(s.index) << 1 }
func invalidateID(s *slot) uint64 { return uint64(s.index)<<1 | 1 }

// dial connects, with the receives for all credits posted before the peer can
// send.
func (d *dialer) dial(ctx context.Context, long *longbuf.Pool) (*link, error) {
	caps := d.cfg.Device.Caps()
	l := &link{
		requester: requester{
			credits: credit.New(d.cfg.Credits), maxSGE: caps.MaxSGE, maxPayload: d.cfg.MaxPayload,
			invalidates: caps.RemoteInvalidate, resends: maxResends, stats: &d.stats,
			done: make(chan struct{}), quiet: make(chan struct{}), slots: map[uint32]*slot{}, stall: &stall{},
		},
		d: d, long: long,
	}
	l.port = l
	l.turn, l.drive = turn.New(&l.mu, l.interrupt), l.receiveNext
	l.waiting.Store(newWaiting())
	if d.cfg.Padding.Align > 0 || d.cfg.ReadReplies {
		l.corner = newCorners(l)
	}
	l.stall.start(l)
	backCtx, stopBack := context.WithCancel(context.Background())
	l.stopBack = stopBack
	if err := l.layOutArena(); err != nil {
		stopBack()
		return nil, err
	}
	l.readsIn = max(1, min(readsIn, caps.MaxReadDepth))
	opts := verbs.ConnOptions{
		SendQueue: min(caps.MaxQueue, 8*d.cfg.Credits+8*plan.MaxSegments),
		RecvQueue: d.cfg.receives(),
		ReadsIn:   l.readsIn,
		ReadsOut:  d.readsOut(),
		LocalAddr: d.cfg.LocalAddr,
		Prepare:   l.postFirst,
	}
	ours := wire.PrivateData{RemoteInvalidate: caps.RemoteInvalidate, SendSize: d.cfg.InlineSend, RecvSize: d.cfg.InlineRecv}
	if b := ours.Append(nil); len(b) <= caps.MaxPrivateData {
		opts.PrivateData = b
	}
	conn, err := d.cfg.Device.Dial(ctx, d.cfg.Addr, opts)
	if err != nil {
		stopBack()
		return nil, errors.Join(err, l.freeArena())
	}
	// Of the device that the connection runs on, which may be another by now.
	if l.regionKeys = d.cfg.Device.Caps().RegionKeys; l.regionKeys {
		if l.names, err = conn.NewWindow(); err != nil {
			stopBack()
			return nil, errors.Join(err, conn.Close(), l.freeArena())
		}
	}
	l.conn, l.sendQueue = conn, opts.SendQueue
	l.terms = terms(&d.cfg, conn.PrivateData())
	if l.control != nil {
		l.version = versionTry
	}
	d.noteTerms(l)
	l.reads = min(d.readsOut(), conn.ReadsOut())
	d.stats.credits.Add(1)
	if l.control != nil {
		go l.control.run()
	}
	go l.runReaper()
	if c, ok := l.corner.(corners); ok && c.undone != nil {
		l.users.Add(1)
		go c.runDone()
	}
	l.startBack(backCtx)
	return l, nil
}

// terms are the inline thresholds of version 1, which follow from both sides'
// sizes (RFC 8797 section 4): 1024 when the peer told none.
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
	if l.d.tries2() {
		l.control = newControl(l, next(maxCtl))
	}
	l.all = make([]slot, cfg.Credits)
	for i := range l.all {
		s := &l.all[i]
		*s = slot{
			index: i, buf: receives + i, waiter: turn.NewWaiter(),
			header: next(maxHeaderLen), call: next(cfg.InlineSend), scratch: next(scratchLen),
		}
		l.free = append(l.free, s)
	}
	l.makeBack(next)
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

func (l *link) postFirst(qp verbs.QP) error {
	wrs := make([]verbs.RecvWR, l.d.cfg.receives())
	for i := range wrs {
		wrs[i] = l.receive(i)
	}
	_, err := qp.PostRecv(wrs)
	return err
}

// receive makes receive buffer i ready to be posted.
func (l *link) receive(i int) verbs.RecvWR {
	wr := verbs.RecvWR{ID: uint64(i), Buf: l.bufs[i]}
	if l.control != nil {
		wr.Buf = wr.Buf.Slice(0, l.control.props.post(i))
	}
	return wr
}

func (l *link) Done() <-chan struct{} { return l.done }

// Stalled implements transport.Stalling, as far as the connection can tell.
func (l *link) Stalled() error {
	if c, ok := l.conn.(verbs.Stalling); ok {
		return c.Stalled()
	}
	return nil
}

// fail ends the link, unless it has ended. Exchanges then wait for quiet.
func (l *link) fail(err error) {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = err
		close(l.done)
	}
	l.mu.Unlock()
	if first {
		if err := l.conn.Close(); err != nil {
			l.d.cfg.Log.Info(fmt.Sprintf("closing the connection to %s: %v", l.d.cfg.Addr, err))
		}
		l.stopBack()
	}
}

// Close ends the link and waits for the reaper and the exchanges.
func (l *link) Close() error {
	l.fail(transport.ErrClosed)
	<-l.quiet
	if l.control != nil {
		<-l.control.ended
	}
	l.users.Wait()
	var err error
	l.close.Do(func() {
		l.stall.timer.Stop()
		err = l.freeArena()
	})
	return err
}
