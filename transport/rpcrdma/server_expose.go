package rpcrdma

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Replies by read chunks (RFC 5666 sections 3.4 and 3.8; RFC 8166 section 4.3.1
// dropped them): what of a reply fits neither inline nor the client's chunks is
// opened to the client, which fetches it and then sends RDMA_DONE. Until then
// the call keeps its memory and its keys, and one credit of the client's is not
// granted. A client has so many of them at most, further replies wait; and one
// that does not send RDMA_DONE within ServerConfig.DoneTimeout is dropped.

// maxExposed bounds the segments of one reply, so that the requests that open
// or close them are one group.
const maxExposed = groupWRs - 1

// exposer is what of a connection is for such replies; it is nil where there are none.
type exposer struct {
	// open holds a token for each reply whose read chunks are open.
	open chan struct{}

	mu sync.Mutex
	// owed are the calls that an RDMA_DONE is owed for, by XID; windows are not bound.
	owed    map[uint32]*serverCall
	windows []verbs.Window
}

func newExposer(n int) *exposer {
	return &exposer{open: make(chan struct{}, n), owed: map[uint32]*serverCall{}}
}

// exposure is what of a call is for such a reply.
type exposure struct {
	opened  []wire.ReadSegment
	windows []verbs.Window
	// What follows is guarded by exposer.mu. at is when the reply was posted; posting: not all of it has been; early:
	// RDMA_DONE came all the same.
	at             time.Time
	posting, early bool
}

// Expose makes the requests that open the reply's read chunks to the client, and
// the read list that names them. It waits while the client owes too many
// RDMA_DONE.
func (k *serverCall) Expose(ctx context.Context, how plan.Reply, head mem.Seg, marks []xdr.Mark) ([]wire.ReadSegment, error) {
	k.c.crew.Relieve()
	select {
	case k.c.exposer.open <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := k.openAll(how, head, marks); err != nil {
		// Nothing has been posted yet.
		k.shelve()
		<-k.c.exposer.open
		return nil, plan.Refuse(wire.ErrSystem, wire.Fault{}, "%v", err)
	}
	return k.exposure.opened, k.owed()
}

// openAll fills k.exposure.opened.
func (k *serverCall) openAll(how plan.Reply, head mem.Seg, marks []xdr.Mark) (err error) {
	list := k.exposure.opened[:0]
	if how.Kind == plan.ReadLong {
		if list, err = k.open(list, 0, head); err != nil {
			return err
		}
	}
	for i, m := range marks {
		if how.Into[i] != plan.InRead {
			continue
		}
		for _, s := range k.Payload(m.Index) {
			if s.Len == 0 {
				continue
			}
			if list, err = k.open(list, m.Pos, s); err != nil {
				return err
			}
		}
	}
	k.exposure.opened = list
	return nil
}

// open appends a request that lets the client read s.
func (k *serverCall) open(list []wire.ReadSegment, pos int, s mem.Seg) ([]wire.ReadSegment, error) {
	w, err := k.c.exposer.takeWindow(k.c.conn)
	if err != nil {
		return nil, err
	}
	k.exposure.windows = append(k.exposure.windows, w)
	seg := wire.Segment{Handle: w.Next(s), Length: uint32(s.Len), Offset: w.Addr(s)}
	k.WRs = append(k.WRs, verbs.SendWR{Op: verbs.OpBind, Window: w, Access: verbs.RemoteRead, Local: k.Local(s)})
	return append(list, wire.ReadSegment{Position: uint32(pos), Segment: seg}), nil
}

// owed records that the client owes RDMA_DONE for k.
func (k *serverCall) owed() error {
	e := k.c.exposer
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owed[k.Hdr.XID] != nil {
		return fmt.Errorf("two calls under XID %#x", k.Hdr.XID)
	}
	k.refs.Add(1)
	k.exposure.at, k.exposure.posting, k.exposure.early = time.Now(), true, false
	e.owed[k.Hdr.XID] = k
	return nil
}

// doneWith handles RDMA_DONE, which came in k: the chunks of the call that it names
// are closed. Their completion ends that call. To close what is not open yet
// would do nothing, and leave the client with keys to memory that others get:
// of a call whose reply is still being posted, that is for who posts that.
func (k *serverCall) doneWith(ctx context.Context) {
	c, x := k.c, k.c.exposer
	x.mu.Lock()
	e := x.owed[k.Hdr.XID]
	delete(x.owed, k.Hdr.XID)
	early := e != nil && e.exposure.posting
	if early {
		e.exposure.early = true
	}
	x.mu.Unlock()
	if e == nil {
		k.ignore(ctx)
		return
	}
	c.s.count.dones.Add(1)
	err := k.repost()
	if err == nil && !early {
		err = k.shut(ctx, e)
	}
	if err != nil {
		k.Abandon(ctx, err)
	}
}

// shut posts the requests that close the chunks of e's reply.
func (k *serverCall) shut(ctx context.Context, e *serverCall) error {
	k.WRs = k.WRs[:0]
	for _, s := range e.exposure.opened {
		k.WRs = append(k.WRs, verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: s.Handle})
	}
	return k.c.post(ctx, e.id, k.WRs, k.wc[:])
}

// Published is called when a reply with open chunks has been posted.
func (k *serverCall) Published(ctx context.Context) {
	k.c.exposer.mu.Lock()
	k.exposure.posting = false
	early := k.exposure.early
	k.c.exposer.mu.Unlock()
	if !early || k.abandoned {
		return
	}
	if err := k.shut(ctx, k); err != nil {
		k.Abandon(ctx, err)
	}
}

// closed is called when the call's keys are invalid.
func (k *serverCall) closed() {
	k.shelve()
	<-k.c.exposer.open
	k.unref()
}

// shelve puts the call's windows, which are not bound, where others find them.
func (k *serverCall) shelve() {
	e := k.c.exposer
	e.mu.Lock()
	defer e.mu.Unlock()
	e.windows = append(e.windows, k.exposure.windows...)
	k.exposure.windows = k.exposure.windows[:0]
}

func (e *exposer) takeWindow(conn verbs.Conn) (verbs.Window, error) {
	e.mu.Lock()
	if n := len(e.windows); n > 0 {
		w := e.windows[n-1]
		e.windows = e.windows[:n-1]
		e.mu.Unlock()
		return w, nil
	}
	e.mu.Unlock()
	return conn.NewWindow()
}

// overdue reports whether the client has owed an RDMA_DONE for longer than limit.
func (e *exposer) overdue(now time.Time, limit time.Duration) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for xid, k := range e.owed {
		if d := now.Sub(k.exposure.at); d >= limit {
			return fmt.Errorf("client did not send RDMA_DONE for call %#x within %v", xid, d.Round(time.Millisecond))
		}
	}
	return nil
}

// most is how many replies may have open chunks, out how many have.
func (e *exposer) most() int {
	if e == nil {
		return 0
	}
	return cap(e.open)
}

func (e *exposer) out() int {
	if e == nil {
		return 0
	}
	return len(e.open)
}
