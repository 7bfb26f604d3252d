package nfs4

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// cloneBlock is taken for the block size of a server that does not tell it; Linux does not.
const cloneBlock = 4096

// copies is what is known of the server's ways to copy.
type copies struct {
	// blockSize is what offsets of CLONE are multiples of, at the export's root.
	blockSize uint64
	// noClone: the server has said that it does not have CLONE. async: nor copies that are over when they
	// are answered.
	noClone, async atomic.Bool
}

// Copy implements nfsclient.Ranges. Where both files can share blocks, and the range is of whole ones, they come to
// share them. Otherwise the server copies, less than asked for if it likes; a caller goes on where it has ended. Nothing
// is copied behind the end of the source.
func (c *Client) Copy(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromState nfsclient.OpenState, fromOff uint64,
	to nfsclient.Handle, toState nfsclient.OpenState, toOff, n uint64) (r nfsclient.WriteResult, err error) {
	src, err := opening(fromState)
	if err != nil {
		return r, err
	}
	dst, err := opening(toState)
	if err != nil {
		return r, err
	}
	if n == 0 {
		return r, nil // of the protocol's it would mean to the end
	}
	done, err := c.alter(ctx, to)
	if err != nil {
		return r, err
	}
	defer done()
	f := copyOf{c, cr, from, to, src, dst, fromOff, toOff, n}
	err = c.optional(func() error {
		ok, err := f.clone(ctx, &r)
		if err != nil || ok {
			return err
		}
		return f.copy(ctx, &r)
	})
	return r, err
}

// copyOf is a range to copy.
type copyOf struct {
	c              *Client
	cr             nfsclient.Cred
	from, to       nfsclient.Handle
	src, dst       *openState
	fromOff, toOff uint64
	n              uint64
}

// whole reports whether the range is of whole blocks. The last of a file need not be whole; that the range ends there
// is for the server to see.
func (f *copyOf) whole() bool {
	b := f.c.copies.blockSize
	return f.fromOff%b == 0 && f.toOff%b == 0
}

// clone is CLONE (RFC 7862 section 15.13), and COMMIT in the same compound: what CLONE has done may be lost in a restart, and
// its answer has no verifier by which that would show. ok is false if the server does not do it; nothing has happened then.
func (f *copyOf) clone(ctx context.Context, r *nfsclient.WriteResult) (ok bool, err error) {
	c := f.c
	if !f.whole() || c.copies.noClone.Load() {
		return false, nil
	}
	op, commit := &wire.Clone{FromOffset: f.fromOff, ToOffset: f.toOff, Count: f.n}, &wire.Commit{}
	q := &request{op: "CLONE", at: 4}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: f.from}, &wire.SaveFH{}, &wire.PutFH{Handle: f.to}, op, commit, c.getattr()}, true
	if err := c.carrying(ctx, f.cr, q, []carried{{f.src, &op.From}, {f.dst, &op.To}}); err != nil {
		if q.Done != 4 {
			return false, err
		}
		switch q.Status {
		case nfsclient.ErrNotSupp, wire.ErrOpIllegal:
			c.copies.noClone.Store(true)
			return false, nil
		case nfsclient.ErrInval, nfsclient.ErrXDev, wire.ErrWrongType:
			return false, nil // not these files, or not this range
		}
		return false, err
	}
	r.N, r.Committed, r.Verifier = int(f.n), nfsclient.FileSync, commit.Verifier
	r.Wcc.After.Attr, r.Wcc.After.Set = c.postOf(q, 5)
	return true, nil
}

// copy is COPY (RFC 7862 section 15.2). A copy that is over when it is answered is asked for, unless the server has
// said that it has only others.
func (f *copyOf) copy(ctx context.Context, r *nfsclient.WriteResult) error {
	for tries := 0; ; tries++ {
		again, err := f.copyOnce(ctx, r)
		if !again || tries > maxRevive {
			return err
		}
	}
}

// copyOnce is copy in one try; again, with the error if it was the last, has it made once more.
func (f *copyOf) copyOnce(ctx context.Context, r *nfsclient.WriteResult) (again bool, err error) {
	c := f.c
	w := c.beginWait(&waiter{h: f.to, copies: true}) // CB_OFFLOAD may overtake the answer
	defer c.endWait(w)
	op := &wire.Copy{FromOffset: f.fromOff, ToOffset: f.toOff, Count: f.n, Consecutive: true, Synchronous: !c.copies.async.Load()}
	q := &request{op: "COPY", at: 3}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: f.from}, &wire.SaveFH{}, &wire.PutFH{Handle: f.to}, op, c.getattr()}, true
	err = c.carrying(ctx, f.cr, q, []carried{{f.src, &op.From}, {f.dst, &op.To}})
	r.Wcc.After.Attr, r.Wcc.After.Set = c.postOf(q, 4)
	switch {
	case q.Status == wire.ErrOffloadNoReqs && err != nil:
		if !op.Synchronous || op.ResSynchronous || !op.ResConsecutive {
			return false, nfsclient.ErrNotSupported
		}
		c.copies.async.Store(true)
		return true, nfsclient.ErrNotSupported
	case err != nil:
		return false, err
	}
	if op.HasCallback {
		c.copying(w, op.Callback)
		if err := f.await(ctx, w, op); err != nil {
			return isLost(err), err // the server has forgotten the copy in a restart
		}
		// Of a later moment than these attributes.
		r.Wcc.After.Set = false
	}
	if op.Copied > f.n {
		return false, broken("COPY", "%d bytes copied of %d", op.Copied, f.n)
	}
	r.N, r.Committed, r.Verifier = int(op.Copied), op.Committed, op.Verifier
	return false, nil
}

// await waits for the end of a copy that goes on after it was answered, until the server calls back, and by asking for
// it: CB_OFFLOAD may be lost. What was copied by then is put into op; how stable it is only the callback says.
func (f *copyOf) await(ctx context.Context, w *waiter, op *wire.Copy) error {
	c := f.c
	status := &wire.OffloadStatus{Stateid: op.Callback}
	q := &request{op: "OFFLOAD_STATUS", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: f.to}, status}
	for delay := firstPoll; ; delay = min(2*delay, lastPoll) {
		err := w.pause(ctx, c, delay)
		if err == nil && c.outcome(w) == nil {
			err = c.do(ctx, f.cr, q)
		}
		// Once a server has called back it may not know the copy any more.
		if end := c.outcome(w); end != nil {
			if end.Outcome != wire.OK {
				return statusOf("COPY", end.Outcome)
			}
			op.Copied, op.Committed, op.Verifier = end.Copied, end.Committed, end.Verifier
			return nil
		}
		if gone := ctx.Err(); gone != nil {
			f.cancel(op.Callback)
			return gone
		}
		if err != nil {
			if st, _ := nfsclient.StatusOf(err); st == nfsclient.ErrNotSupp {
				return fmt.Errorf("COPY: the server goes on copying, and cannot say whether it is done: %w", syscall.EIO)
			}
			return err
		}
		if !status.Complete {
			continue
		}
		if status.Outcome != wire.OK {
			return statusOf("COPY", status.Outcome)
		}
		op.Copied, op.Committed = status.Copied, nfsclient.Unstable
		return nil
	}
}

// cancel ends a copy that nobody waits for any more, in the background: the server may be silent. One that is over already is none to
// the server.
func (f *copyOf) cancel(sid wire.Stateid) {
	f.c.state.spawn(&f.c.running, func() { f.runCancel(sid) })
}

func (f *copyOf) runCancel(sid wire.Stateid) {
	c := f.c
	q := &request{op: "OFFLOAD_CANCEL", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: f.to}, &wire.OffloadCancel{Stateid: sid}}, true
	if err := c.giving(c.life, f.cr, q); err != nil && !isLost(err) {
		c.cf.Log.Info(fmt.Sprintf("%s: ending a copy: %v", c.cf.Host, settle(err)))
	}
}
