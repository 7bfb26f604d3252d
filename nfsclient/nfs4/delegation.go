package nfs4

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

const (
	// maxDelegations bounds the delegations held; beyond it those used least recently are returned.
	maxDelegations = 1000
	// maxEarly bounds the recalls kept of delegations whose OPEN is not answered yet, and the ends of copies whose COPY is not.
	maxEarly = 16
)

// delegation is the server's promise that a file does not change, and may be opened for reading without
// asking (RFC 8881 section 10.4). All but h, cr and gone is guarded by stateTable.mu.
type delegation struct {
	h nfsclient.Handle
	// cr is whose OPEN it came with. Others are not opened a file for without the server, which alone knows
	// their rights.
	cr  nfsclient.Cred
	sid wire.Stateid
	// attr is what the file is like, if names is delegTable.names.
	attr  nfsclient.Attr
	names uint64
	// epoch is that of the session in which it was given, or reclaimed.
	epoch uint64
	// local are the openings that the server knows nothing of.
	local map[*openState]struct{}
	// leaving: it is being returned, and of no use for anything new. dead: the server has it no more.
	leaving, dead bool
	gone          chan struct{} // closed once it is out of the table
	place         *list.Element // in delegTable.used
}

// delegTable is the delegations of a Client. Guarded by stateTable.mu.
type delegTable struct {
	files map[nfsclient.Handle]*delegFile
	// used are the delegations, the least recently used first.
	used list.List
	// names counts our own calls that remove or rename, of which it is not known what file they have
	// changed: link counts and ctimes learnt before are not believed.
	names uint64
}

// delegFile is a file that has a delegation, or is about to get one, or must not.
type delegFile struct {
	held *delegation
	// asking counts OPENs under way that may bring a delegation, changing our own changes under way and the
	// openings for writing.
	asking, changing int
	// spoilt: a change has begun while asking, so that what comes is given back.
	spoilt bool
	// early are stateids that were recalled while asking: the answer to OPEN may come later.
	early []wire.Stateid
}

// delegated reports whether the server may give delegations.
func (c *Client) delegated() bool { return c.cf.Callbacks != nil }

// file finds or makes what is known of h; stateTable.mu is held.
func (t *delegTable) file(h nfsclient.Handle) *delegFile {
	f := t.files[h]
	if f == nil {
		f = &delegFile{}
		t.files[h] = f
	}
	return f
}

// tidy forgets a file of which there is nothing to know; stateTable.mu is held.
func (t *delegTable) tidy(h nfsclient.Handle, f *delegFile) {
	if f.asking == 0 {
		f.spoilt, f.early = false, nil
	}
	if f.held == nil && f.asking == 0 && f.changing == 0 {
		delete(t.files, h)
	}
}

// leased reports whether delegations of an epoch may be relied upon now.
func (c *Client) leased() (epoch uint64, ok bool) {
	if !c.delegated() {
		return 0, false
	}
	return c.ses.Leased()
}

// use is the delegation of h that may be relied upon in an epoch, or nil; stateTable.mu is held.
func (t *stateTable) use(h nfsclient.Handle, epoch uint64) *delegation {
	f := t.delegs.files[h]
	if f == nil || f.held == nil || f.held.leaving {
		return nil
	}
	switch d := f.held; {
	case d.epoch < epoch:
		t.kill(d) // it came when its session was lost already
		return nil
	case d.epoch > epoch:
		return nil // it was reclaimed since the caller has asked for the epoch
	}
	t.delegs.used.MoveToBack(f.held.place)
	return f.held
}

// drop takes d out of the table; stateTable.mu is held.
func (t *delegTable) drop(d *delegation) {
	f := t.files[d.h]
	if f == nil || f.held != d {
		return
	}
	f.held = nil
	t.used.Remove(d.place)
	t.tidy(d.h, f)
	close(d.gone)
}

// openLocally opens a file for reading without the server.
func (c *Client) openLocally(cr nfsclient.Cred, h nfsclient.Handle) (r nfsclient.Opened, ok bool) {
	epoch, ok := c.leased()
	if !ok {
		return r, false
	}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.use(h, epoch)
	if d == nil || t.closed || !sameCred(d.cr, cr) {
		return r, false
	}
	o := c.newOpen(cr, h, nfsclient.OpenRead)
	o.sid, o.deleg = d.sid, d
	d.local[o] = struct{}{}
	t.opens[o] = struct{}{}
	r.State = o
	if d.names == t.delegs.names {
		a := d.attr
		r.Attr = &a
	}
	return r, true
}

func sameCred(a, b nfsclient.Cred) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.GIDs, b.GIDs)
}

// closeLocal closes an opening that the server does not know of. o.turn is the caller's.
func (c *Client) closeLocal(o *openState, lost error) bool {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.deleg == nil {
		return false
	}
	o.detach()
	delete(t.opens, o)
	o.lost = lost
	return true
}

// detach makes o an opening like others; stateTable.mu is held.
func (o *openState) detach() {
	if o.deleg != nil {
		delete(o.deleg.local, o)
		o.deleg = nil
	}
}

// knownAttr is the attributes of a file that the server has promised not to change.
func (c *Client) knownAttr(h nfsclient.Handle) (a nfsclient.Attr, ok bool) {
	epoch, ok := c.leased()
	if !ok {
		return a, false
	}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.use(h, epoch)
	if d == nil || d.names != t.delegs.names {
		return a, false
	}
	return d.attr, true
}

// asOf is a moment before a call that fetches attributes: a delegation held then and still held covers them.
type asOf struct {
	d     *delegation
	names uint64
}

func (c *Client) before(h nfsclient.Handle) (m asOf) {
	epoch, ok := c.leased()
	if !ok {
		return m
	}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	return asOf{t.use(h, epoch), t.delegs.names}
}

// covered keeps attributes that were fetched since m.
func (c *Client) covered(m asOf, a *nfsclient.Attr) {
	if m.d == nil {
		return
	}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := m.d; !d.leaving && !d.dead && t.delegs.names == m.names {
		d.attr, d.names = *a, m.names
	}
}

// ask announces an OPEN of o that may bring a delegation, and reports whether it is to.
func (c *Client) ask(o *openState) bool {
	if !c.delegated() || o.access != nfsclient.OpenRead {
		return false
	}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	h := o.h
	f := t.delegs.file(h)
	if f.held != nil || f.changing > 0 || t.closed {
		t.delegs.tidy(h, f)
		return false
	}
	f.asking++
	o.names = t.delegs.names
	return true
}

// asked ends ask.
func (c *Client) asked(h nfsclient.Handle) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.delegs.file(h)
	f.asking--
	t.delegs.tidy(h, f)
}

// grant takes over a delegation that an OPEN of o has brought, after ask; ok is false if it is to be given
// back at once.
func (c *Client) grant(o *openState, op *wire.Open, a *nfsclient.Attr) (ok bool) {
	g := &op.Delegation
	t := &c.state
	t.mu.Lock()
	f := t.delegs.files[o.h]
	if g.Type != wire.DelegRead || g.Recall || op.Access&wire.WantNoDeleg != 0 || f == nil || f.spoilt || f.changing > 0 || t.closed {
		t.mu.Unlock()
		return false
	}
	if d := f.held; d != nil {
		// Two OPENs at once: the server has one delegation of the file for us.
		defer t.mu.Unlock()
		return d.sid.Other == g.Stateid.Other
	}
	for i, sid := range f.early {
		if sid.Other == g.Stateid.Other {
			f.early = slices.Delete(f.early, i, i+1)
			t.mu.Unlock()
			return false
		}
	}
	d := &delegation{h: o.h, cr: o.cr, sid: g.Stateid, epoch: o.epoch, local: map[*openState]struct{}{}, gone: make(chan struct{})}
	d.names = o.names
	if a != nil {
		d.attr = *a
	} else {
		d.names-- // of no use
	}
	f.held = d
	d.place = t.delegs.used.PushBack(d)
	c.returnSoon(t.delegs.excess(maxDelegations), false)
	t.mu.Unlock()
	return true
}

// excess marks as leaving what is held above keep, the least recently used first; stateTable.mu is held.
func (t *delegTable) excess(keep int) (all []*delegation) {
	n := t.used.Len() - keep
	for e := t.used.Front(); e != nil && n > 0; e = e.Next() {
		d, _ := e.Value.(*delegation)
		if !d.leaving {
			d.leaving = true
			all = append(all, d)
		}
		n--
	}
	return all
}

// returnSoon returns delegations that were marked as leaving, in the background; recalled, if another's change waits
// for that, so that the cache is told first. The table is not closed, and stateTable.mu is held.
func (c *Client) returnSoon(all []*delegation, recalled bool) {
	if len(all) > 0 {
		c.running.Go(func() { c.runReturn(all, recalled) })
	}
}

func (c *Client) runReturn(all []*delegation, recalled bool) {
	for _, d := range all {
		if recalled {
			ctx, cancel := context.WithTimeout(c.life, c.ses.Lease()/2)
			if err := c.watcher.recalled(ctx, d.h); err != nil {
				c.cf.Log.Info(fmt.Sprintf("%s: a delegation is returned though data of the file could not be written: %v", c.cf.Host, err))
			}
			cancel()
		}
		c.giveUp(c.life, d)
	}
}

// giveUp returns a delegation that is leaving. Openings that the server does not know of are made known to it
// first, as of the delegation, so that nobody comes in between.
func (c *Client) giveUp(ctx context.Context, d *delegation) {
	t := &c.state
	for {
		t.mu.Lock()
		var o *openState
		for o = range d.local {
			break
		}
		t.mu.Unlock()
		if o == nil {
			break
		}
		if err := c.openAtServer(ctx, o); err != nil {
			c.cf.Log.Warn(fmt.Sprintf("%s: a file that is open could not be opened at the server before its delegation was returned: %v", c.cf.Host, settle(err)))
			t.mu.Lock()
			o.detach()
			o.stale = true // opened anew by who next uses it
			t.mu.Unlock()
		}
	}
	ret := &wire.DelegReturn{}
	q := &request{op: "DELEGRETURN", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: d.h}, ret}, true
	q.Prepare = func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if d.dead {
			return errNothing
		}
		ret.Stateid = d.sid
		return nil
	}
	if err := c.giving(ctx, d.cr, q); err != nil && !errors.Is(err, errNothing) && !isLost(err) {
		c.cf.Log.Info(fmt.Sprintf("%s: returning a delegation: %v", c.cf.Host, settle(err)))
	}
	t.mu.Lock()
	t.delegs.drop(d)
	t.mu.Unlock()
}

// openAtServer has the server know of an opening that was made by a delegation.
func (c *Client) openAtServer(ctx context.Context, o *openState) error {
	t := &c.state
	t.mu.Lock()
	local := o.deleg != nil
	t.mu.Unlock()
	if !local {
		return nil
	}
	if err := o.turn.take(ctx); err != nil {
		return err
	}
	defer o.turn.leave()
	op := &wire.Open{Claim: wire.ClaimDelegCurFH}
	t.mu.Lock()
	d := o.deleg
	if d != nil {
		op.DelegStateid = d.sid
	}
	t.mu.Unlock()
	if d == nil {
		return nil
	}
	_, err := c.open(ctx, o, op)
	if err != nil && (answered(err) || isLost(err)) {
		_, err = c.open(ctx, o, &wire.Open{Claim: wire.ClaimFH})
	}
	return err
}

// alter announces a change of ours to a file: its delegation is returned first, and the server's answers bring
// none until done is called.
func (c *Client) alter(ctx context.Context, h nfsclient.Handle) (done func(), err error) {
	if !c.delegated() {
		return func() {}, nil
	}
	done, d := c.altering(h)
	if d == nil {
		return done, nil
	}
	select {
	case <-d.gone:
		return done, nil
	case <-c.life.Done():
		err = context.Canceled
	case <-ctx.Done():
		err = ctx.Err()
	}
	done()
	return nil, err
}

// altering is alter without waiting for the delegation, which is being returned.
func (c *Client) altering(h nfsclient.Handle) (done func(), d *delegation) {
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.delegs.file(h)
	f.changing++
	f.spoilt = f.spoilt || f.asking > 0
	if d = f.held; d != nil && !d.leaving && !t.closed {
		d.leaving = true
		c.returnSoon([]*delegation{d}, false)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		f.changing--
		t.delegs.tidy(h, f)
	}, d
}

// renames says that a call of ours begins or ends that changes link counts and ctimes of files unknown.
func (c *Client) renames() {
	if !c.delegated() {
		return
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.delegs.names++
}

// kill gives up a delegation that the server has no more. Its openings are opened anew by who next uses
// them; stateTable.mu is held.
func (t *stateTable) kill(d *delegation) {
	d.dead, d.leaving = true, true
	for o := range d.local {
		o.detach()
		o.stale = true
	}
	t.delegs.drop(d)
}

// returnLast returns what is held when the Client is closed: nothing is open any more.
func (c *Client) returnLast(ctx context.Context) {
	t := &c.state
	t.mu.Lock()
	var mine, others []*delegation
	for e := t.delegs.used.Front(); e != nil; e = e.Next() {
		d, _ := e.Value.(*delegation)
		if d.leaving {
			others = append(others, d)
		} else {
			d.leaving = true
			mine = append(mine, d)
		}
	}
	t.mu.Unlock()
	all := make(chan *delegation, len(mine))
	for _, d := range mine {
		all <- d
	}
	close(all)
	var wg sync.WaitGroup
	for range min(closeCalls, len(mine)) {
		wg.Go(func() { c.runReturnLast(ctx, all) })
	}
	wg.Wait()
	for _, d := range others {
		select {
		case <-d.gone:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Client) runReturnLast(ctx context.Context, all <-chan *delegation) {
	for d := range all {
		c.giveUp(ctx, d)
	}
}
