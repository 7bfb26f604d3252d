package nfs4

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// stateTable is what the server keeps for this client.
type stateTable struct {
	mu     sync.Mutex
	closed bool
	opens  map[*openState]struct{}
	locks  map[lockKey]*lockState
	// lingering are openings that are closed but for the locks that others go on using, see linger.
	lingering map[*openState]struct{}
	delegs    delegTable
	// waiting are those whom the server may call back for.
	waiting map[*waiter]struct{}
}

// spawn runs f on a goroutine of wg, unless the Client is being closed.
func (t *stateTable) spawn(wg *sync.WaitGroup, f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	wg.Go(f)
	return true
}

// openState is one opening of a file. Each has an open-owner of its own, so that its stateid
// changes only by what is done for it.
type openState struct {
	h      nfsclient.Handle
	cr     nfsclient.Cred
	access nfsclient.OpenMode
	owner  string
	// turn is held by who opens the file again, or closes it. It is not for the recovery of a
	// session, for which such a call waits.
	turn turn

	// Guarded by stateTable.mu:
	sid wire.Stateid
	// wider is what it permits beside access, for locks, see widen.
	wider nfsclient.OpenMode
	// stale: the server does not know sid any more, and nobody has opened the file again.
	stale bool
	// lost is why the file cannot be opened again.
	lost error
	// deleg is the delegation by which the file is open, and of which sid is then the stateid: the server
	// knows nothing of such an opening. nil for others.
	deleg *delegation
	// names is delegTable.names, and epoch the session's, when the OPEN was sent that asks for a delegation. Of who
	// opens.
	names, epoch uint64
	// altered ends what alter began for an opening for writing; nil for others. It is called without mu.
	altered func()
}

// end ends what goes on as long as o is open.
func (o *openState) end() {
	if o.altered != nil {
		o.altered()
	}
}

func (c *Client) newOpen(cr nfsclient.Cred, h nfsclient.Handle, access nfsclient.OpenMode) *openState {
	return &openState{h: h, cr: cr, access: access, owner: fmt.Sprintf("open %x", c.opened.Add(1)), turn: make(turn, 1)}
}

// opening is what a caller's OpenState stands for, nil for none.
func opening(st nfsclient.OpenState) (*openState, error) {
	if st == nil {
		return nil, nil
	}
	o, ok := st.(*openState)
	if !ok {
		return nil, fmt.Errorf("a state of type %T is not one of this client", st)
	}
	return o, nil
}

// errStale is returned by Prepare: the file must be opened again first.
var errStale = errors.New("the server has lost the state of the open file")

// withState makes a call that carries the state of an opening, or none, in *into. State that the
// server has lost is got back, and the call made again.
func (c *Client) withState(ctx context.Context, cr nfsclient.Cred, q *request, o *openState, into *wire.Stateid) error {
	if o == nil {
		q.Prepare = nil
		*into = wire.AnonymousStateid
		return c.do(ctx, cr, q)
	}
	return c.carrying(ctx, cr, q, []carried{{o, into}})
}

// carried is an opening whose stateid stands in an operation.
type carried struct {
	o    *openState
	into *wire.Stateid
}

// maxRevive is how often a call is made again because state was lost.
const maxRevive = 3

func (c *Client) carrying(ctx context.Context, cr nfsclient.Cred, q *request, with []carried) error {
	// Runs at the moment of sending: the stateid may have changed since the call was made.
	q.Prepare = func() error {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		for _, w := range with {
			if w.o == nil {
				*w.into = wire.AnonymousStateid
				continue
			}
			if w.o.lost != nil {
				return w.o.lost
			}
			if w.o.stale {
				return errStale
			}
			*w.into = w.o.sid.Latest()
		}
		return nil
	}
	for tries := 0; ; tries++ {
		err := c.do(ctx, cr, q)
		if tries == maxRevive || !isLost(err) {
			return err
		}
		for _, w := range c.lostAmong(ctx, with) {
			if err := c.revive(ctx, w.o, *w.into); err != nil {
				return err
			}
		}
	}
}

// lostAmong are those whose state the server has lost, of a call that has failed for that. Of several the server is asked
// which: with an opening that is revived its locks are given up.
func (c *Client) lostAmong(ctx context.Context, with []carried) (lost []carried) {
	test := &wire.TestStateID{}
	c.state.mu.Lock()
	with = slices.DeleteFunc(slices.Clone(with), func(w carried) bool { return w.o == nil })
	for _, w := range with {
		if w.o.stale {
			lost = append(lost, w)
		}
		test.Stateids = append(test.Stateids, w.into.Latest())
	}
	c.state.mu.Unlock()
	switch {
	case len(lost) > 0:
		return lost
	case len(with) == 1:
		return with
	}
	q := &request{op: "TEST_STATEID", at: 0}
	q.Ops = []wire.Operation{test}
	if c.do(ctx, c.cf.Cred, q) != nil {
		return with
	}
	for i, st := range test.Statuses {
		if lostState(st) {
			lost = append(lost, with[i])
		}
	}
	return lost
}

// isLost reports whether a call has failed for the state that it carried.
func isLost(err error) bool {
	if errors.Is(err, errStale) {
		return true
	}
	var e *statusError
	return errors.As(err, &e) && lostState(e.status)
}

// revive opens a file again whose stateid the server does not know, if nobody has done so since
// used was sent. Locks that were held through it are lost: someone else may have had them.
func (c *Client) revive(ctx context.Context, o *openState, used wire.Stateid) error {
	if err := o.turn.take(ctx); err != nil {
		return err
	}
	defer o.turn.leave()
	t := &c.state
	t.mu.Lock()
	if o.lost != nil || !o.stale && o.sid.Other != used.Other {
		defer t.mu.Unlock()
		return o.lost
	}
	var dead []wire.Stateid
	if !o.stale {
		dead = t.stateidsOf(o)
	}
	o.stale = true
	gone := t.loseLocks(o)
	if d := o.deleg; d != nil {
		t.kill(d)
		if !t.closed {
			c.running.Go(func() { c.runKilled(d) })
		}
	}
	t.mu.Unlock()
	c.tellLost(gone)
	c.free(dead)
	op := &wire.Open{Claim: wire.ClaimFH}
	_, err := c.open(ctx, o, op)
	if err == nil {
		c.cf.Log.Info(fmt.Sprintf("%s: a file was opened again whose state the server had lost", c.cf.Host))
		return nil
	}
	if answered(err) || isLost(err) {
		lost := fmt.Errorf("the server has lost the state of the open file, and it could not be opened again: %w: %w", settle(err), syscall.EIO)
		t.mu.Lock()
		o.lost = lost
		t.mu.Unlock()
		t.spawn(&c.running, func() { c.watcher.lost(o.h, nil, lost) })
		return lost
	}
	return err
}

// shareAccess is share_access of OPEN, which asks for no delegation.
func shareAccess(m nfsclient.OpenMode) uint32 {
	a := uint32(wire.WantNoDeleg)
	if m&nfsclient.OpenRead != 0 || m == 0 {
		a |= wire.ShareRead
	}
	if m&nfsclient.OpenWrite != 0 {
		a |= wire.ShareWrite
	}
	return a
}

func (c *Client) openOwner(o *openState) wire.Owner {
	return wire.Owner{ClientID: wire.ClientID(c.ses.ClientID()), Owner: o.owner}
}

// open opens o.h by its handle. The compound asks for the attributes first and for the rights behind: rights kept with
// attributes that are newer would outlive a change that took them away.
func (c *Client) open(ctx context.Context, o *openState, op *wire.Open) (r nfsclient.Opened, err error) {
	if op.Access == 0 {
		op.Access = c.share(o)
	}
	rights := &wire.Access{Want: uint32(nfsclient.FileRights)}
	q := &request{op: "OPEN", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: o.h}, op, c.getattr(), rights}, true
	q.Prepare = func() error {
		op.Owner, o.epoch = c.openOwner(o), c.ses.Epoch()
		return nil
	}
	if err := c.do(ctx, o.cr, q); err != nil {
		return r, err
	}
	r.State, r.Attr = o, c.attrOf(q, 2)
	if q.has(3) {
		r.Asked, r.Granted = nfsclient.FileRights, nfsclient.AccessMask(rights.Granted)&nfsclient.FileRights
	}
	c.took(ctx, o, op, r.Attr)
	return r, nil
}

// took takes over the result of an OPEN, which came with attributes, or none.
func (c *Client) took(ctx context.Context, o *openState, op *wire.Open, a *nfsclient.Attr) {
	c.state.mu.Lock()
	o.sid, o.stale = op.Stateid, false
	o.detach()
	c.state.mu.Unlock()
	if t := op.Delegation.Type; (t == wire.DelegRead || t == wire.DelegWrite) && !c.grant(o, op, a) {
		c.giveBack(ctx, o, op.Delegation.Stateid)
	}
}

// giveBack returns a delegation that the server gave though none was asked for, or that is not wanted any more.
func (c *Client) giveBack(ctx context.Context, o *openState, sid wire.Stateid) {
	q := &request{op: "DELEGRETURN", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: o.h}, &wire.DelegReturn{Stateid: sid}}, true
	if err := c.giving(ctx, o.cr, q); err != nil {
		c.cf.Log.Info(fmt.Sprintf("%s: returning a delegation: %v", c.cf.Host, err))
	}
}

// keep puts o among what has to be recovered, and closed.
func (c *Client) keep(o *openState) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if c.state.closed {
		return false
	}
	c.state.opens[o] = struct{}{}
	return true
}

// OpenFile implements nfsclient.Client. Without a mode there is nothing for the server to keep.
func (c *Client) OpenFile(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, mode nfsclient.OpenMode) (nfsclient.Opened, error) {
	if mode == 0 {
		a, err := c.GetAttr(ctx, cr, h)
		if err != nil {
			return nfsclient.Opened{}, err
		}
		return nfsclient.Opened{Attr: &a}, nil
	}
	if mode == nfsclient.OpenRead {
		if r, ok := c.openLocally(cr, h); ok {
			return r, nil
		}
	}
	o := c.newOpen(cr, h, mode)
	var opened nfsclient.Opened
	err := c.finish(ctx, func(ctx context.Context) (err error) {
		op := &wire.Open{Claim: wire.ClaimFH}
		if mode&nfsclient.OpenWrite != 0 {
			if o.altered, err = c.alter(ctx, h); err != nil {
				return err
			}
			defer func() {
				if err != nil {
					o.end()
				}
			}()
		} else if c.ask(o) {
			op.Access = wire.ShareRead
			defer c.asked(h)
		}
		opened, err = c.open(ctx, o, op)
		if err == nil && !c.keep(o) {
			err = transport.ErrClosed
		}
		return err
	}, func(ctx context.Context) { c.closeLogged(ctx, o) })
	if err != nil {
		return nfsclient.Opened{}, settle(err)
	}
	return opened, nil
}

// CloseFile implements nfsclient.Client.
func (c *Client) CloseFile(ctx context.Context, _ nfsclient.Cred, _ nfsclient.Handle, st nfsclient.OpenState) error {
	o, err := opening(st)
	if err != nil || o == nil {
		return err
	}
	return c.surely(ctx, func(ctx context.Context) error { return settle(c.close(ctx, o)) }, nil)
}

func (c *Client) closeLogged(ctx context.Context, o *openState) {
	if err := c.close(ctx, o); err != nil {
		c.cf.Log.Info(fmt.Sprintf("%s: closing a file at the server: %v", c.cf.Host, settle(err)))
	}
}

// close gives back the locks that were taken through o, and o, and what has lingered for o.
func (c *Client) close(ctx context.Context, o *openState) error {
	err := c.closeTurn(ctx, o)
	c.closeLingering(ctx, o.h)
	return err
}

// closeTurn is close for o alone.
func (c *Client) closeTurn(ctx context.Context, o *openState) error {
	if err := o.turn.take(ctx); err != nil {
		return err
	}
	defer o.turn.leave()
	t := &c.state
	t.mu.Lock()
	_, open := t.opens[o]
	t.mu.Unlock()
	if !open || c.closeLocal(o, transport.ErrClosed) || c.linger(o) {
		return nil
	}
	c.unlockAll(ctx, o)
	cl := &wire.Close{}
	q := &request{op: "CLOSE", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: o.h}, cl}, true
	q.Prepare = func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o.stale {
			return errStale
		}
		cl.Stateid = o.sid
		return nil
	}
	var err error
	for tries := 0; ; tries++ {
		err = c.giving(ctx, o.cr, q)
		t.mu.Lock()
		changed := !o.stale && o.sid != cl.Stateid
		t.mu.Unlock()
		if !isLost(err) || !changed || tries == maxRevive {
			break
		}
	}
	if isLost(err) {
		if !errors.Is(err, errStale) {
			c.free([]wire.Stateid{cl.Stateid})
		}
		err = nil // the server has closed it itself
	}
	t.mu.Lock()
	delete(t.opens, o)
	o.lost = transport.ErrClosed
	for k, l := range t.locks {
		if l.open == o && len(l.set) == 0 {
			delete(t.locks, k)
		}
	}
	t.mu.Unlock()
	o.end()
	return err
}

// closeCalls is how many files Close closes at once.
const closeCalls = 16

// closeAll closes what is open. Nothing is opened any more.
func (c *Client) closeAll(ctx context.Context) {
	t := &c.state
	t.mu.Lock()
	t.closed = true
	all := make(chan *openState, len(t.opens))
	for o := range t.opens {
		all <- o
	}
	close(all)
	t.mu.Unlock()
	var wg sync.WaitGroup
	for range min(closeCalls, len(all)) {
		wg.Go(func() { c.runClose(ctx, all) })
	}
	wg.Wait()
	c.returnLast(ctx)
}

func (c *Client) runClose(ctx context.Context, all <-chan *openState) {
	for o := range all {
		c.closeLogged(ctx, o)
	}
}
