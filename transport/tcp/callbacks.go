package tcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
)

// callbacks serves the calls that a server makes on a link. The link's reader never
// waits for a handler, since the handler may wait for a reply that the same reader
// delivers.
type callbacks struct {
	l      *link
	leases leases
	slots  chan struct{} // holds a token for each call under way
	cancel context.CancelFunc
	ctx    context.Context // of all calls
	wg     sync.WaitGroup  // runCallback
}

func newCallbacks(l *link) *callbacks {
	cfg := &l.d.cfg
	b := &callbacks{l: l, slots: make(chan struct{}, cfg.CallbackConcurrent)}
	b.leases.max, b.leases.budget = cfg.CallbackMax, cfg.CallbackConcurrent*max(cfg.CallbackMax, leaseSlab)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// read reads the rest of a call, whose first bytes are in head, and starts
// runCallback. A call that is too long, or one too many, is dropped. An error ends
// the connection.
func (b *callbacks) read(in *records, head []byte) error {
	select {
	case b.slots <- struct{}{}:
	default:
		b.l.d.stats.badReplies.Add(1)
		return b.l.skip(in, len(head))
	}
	rec := getBuffer(len(head))
	copy(rec.b, head)
	rec, err := in.rest(rec, b.l.d.cfg.CallbackMax)
	if err != nil {
		have := len(rec.b)
		rec.put()
		<-b.slots
		if err == errTooLong {
			b.l.d.stats.badReplies.Add(1)
			return b.l.skip(in, have)
		}
		return err
	}
	b.wg.Add(1)
	go b.runCallback(rec)
	return nil
}

// runCallback serves one call; close joins it.
func (b *callbacks) runCallback(rec *buffer) {
	defer b.wg.Done()
	l := b.l
	w := &worker{h: l.d.cfg.Callbacks, out: l.out, leases: &b.leases, peer: l.peer}
	w.init()
	l.d.stats.callbacks.Add(1)
	if !w.serve(b.ctx, rec) {
		l.fail(fmt.Errorf("%w: malformed call of the server's, or one without a reply", transport.ErrProtocol))
	}
	<-b.slots
}

// close waits for the calls under way. The link must have ended.
func (b *callbacks) close() error {
	b.cancel()
	b.wg.Wait()
	return b.leases.close()
}
