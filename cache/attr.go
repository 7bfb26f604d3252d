package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// stamp says when a call was sent, in the order of Cache.gen and by the clock.
type stamp struct {
	gen uint64
	at  time.Time
}

func (c *Cache) stamp() stamp { return stamp{c.gen.Add(1), c.cfg.Now()} }

// fresh says whether cached attributes may be believed; mu is held.
func (i *Inode) fresh(now time.Time) bool { return i.known && now.Before(i.expires) }

// ttl is for how much longer they may be.
func (i *Inode) ttl(now time.Time) time.Duration { return max(0, i.expires.Sub(now)) }

// attrTTL is for how much longer the kernel may believe them. It does not see a
// change that ends while it is given what was before, nor what times the server
// gives to data that is written later, nor that a hidden name goes: until that is
// over it must ask each time.
func (i *Inode) attrTTL(now time.Time) time.Duration {
	if i.mutating > 0 || !i.wb.Empty() || i.silly != nil {
		return 0
	}
	return i.ttl(now)
}

// bounds are the least and the longest attribute timeout.
func (i *Inode) bounds() (least, most time.Duration) {
	if i.typ == nfsclient.Directory {
		return i.c.cfg.AcDirMin, i.c.cfg.AcDirMax
	}
	return i.c.cfg.AcRegMin, i.c.cfg.AcRegMax
}

// accept takes over attributes from the reply to a call sent at st, unless
// newer ones are known; mu is held. When two calls overlapped, their ChangeIDs
// decide which reply is newer; where they do not, neither is believed for long.
func (i *Inode) accept(st stamp, a *nfsclient.Attr) bool {
	if a.Type != i.typ {
		i.expires = time.Time{} // a handle does not change its type
		return false
	}
	if i.known && st.gen < i.attrGen && !a.Change.After(i.attr.change) {
		if !i.attr.change.After(a.Change) && a.Change != i.attr.change {
			i.expires = time.Time{}
		}
		return false
	}
	i.take(st, a)
	return true
}

// take makes a the known attributes.
func (i *Inode) take(st stamp, a *nfsclient.Attr) {
	least, most := i.bounds()
	switch {
	case !i.known || a.Change != i.attr.change:
		i.timeout, i.timedFrom = least, st.at.Sub(i.c.born)
	case st.at.Sub(i.c.born)-i.timedFrom >= i.timeout:
		i.timeout, i.timedFrom = min(2*i.timeout, most), st.at.Sub(i.c.born)
	}
	if i.known && (a.Mode != i.attr.Mode || a.UID != i.attr.UID || a.GID != i.attr.GID) {
		i.dropRights()
	}
	i.attr, i.known = compact(a), true
	i.attrGen = i.c.gen.Add(1)
	i.expires = st.at.Add(i.timeout)
}

// note handles attributes from a call that changes nothing; mu is held.
func (i *Inode) note(st stamp, a *nfsclient.Attr) {
	first := !i.known
	if !i.accept(st, a) {
		return
	}
	s := a.Change
	early := st.gen < i.relinkGen
	if early { // it need not show that change
		i.expires = time.Time{}
	}
	switch {
	case first:
		i.valid.now = s
	case s == i.valid.now:
		i.relinked = i.relinked && (early || i.mutating > 0)
	case i.mutating > 0 || st.gen < i.mutGen:
		// The server may have been seen between two of our own changes.
		i.expires = time.Time{}
	case i.relinked && s.SameData(i.valid.now):
		i.relinked = early
		i.valid.now = s
		i.dropRights() // ctime may have changed for an access control list, too
	default:
		i.foreign(s)
	}
}

// foreign drops what someone else's change made doubtful; mu is held.
func (i *Inode) foreign(s nfsclient.ChangeID) {
	i.valid = validity{now: s}
	i.relinked = false
	i.dropRights()
	i.detachSpans(0, maxOffset)
	i.forgetNames(true)
	if i.typ == nfsclient.Regular {
		i.doubt()
	}
}

// begin announces a change of ours; finish must follow. mu is not held.
func (i *Inode) begin() stamp {
	i.mu.Lock()
	i.mutating++
	i.mu.Unlock()
	return i.c.stamp()
}

// finish ends a change of ours that returned w; mu is held. With assume, a
// change without attributes from before it is taken to be the only one.
func (i *Inode) finish(st stamp, w *nfsclient.Wcc, assume bool) {
	i.mutating--
	i.mutGen = i.c.gen.Add(1)
	if w.After == nil {
		i.expires = time.Time{}
	} else {
		i.took(st, w, assume)
	}
	if i.mutating > 0 || !i.known {
		return
	}
	broken := i.valid.settle()
	s := i.attr.change
	switch {
	case s == i.valid.now && !broken:
	case broken || s.After(i.valid.now):
		i.foreign(s)
	default:
		i.expires = time.Time{}
	}
}

func (i *Inode) took(st stamp, w *nfsclient.Wcc, assume bool) {
	post := w.After.Change
	if !i.known {
		i.take(st, w.After)
		i.valid.now = post
		return
	}
	old := i.attr.change
	switch {
	case w.Before != nil:
		pre := *w.Before
		i.valid.own(pre, post)
		if pre == old && w.After.Type == i.typ {
			i.take(st, w.After) // the direct successor, whatever the clocks say
			return
		}
	case assume && post.MayFollow(i.valid.now):
		i.valid.own(i.valid.now, post)
	}
	i.accept(st, w.After)
}

// outward is what the user sees: with the size of data not yet written; mu is held.
func (i *Inode) outward() nfsclient.Attr {
	a := i.attr.full(i.typ)
	if i.typ == nfsclient.Regular && !i.wb.Empty() {
		a.Size = max(a.Size, uint64(i.wb.End()))
	}
	if i.silly != nil && a.Nlink > 0 && !i.c.removing(i.silly) {
		a.Nlink-- // the name that only we know does not count
	}
	return a
}

// GetAttr is i's attributes and for how long they may be kept. Written data is
// sent first, as by the Linux client: the times that it will have are known to
// nobody but the server, and would otherwise change when it is sent. No COMMIT
// is needed for that.
func (c *Cache) GetAttr(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.Attr, time.Duration, error) {
	i.mu.Lock()
	unsent := i.wb.Unsent()
	i.mu.Unlock()
	if unsent {
		if err := i.drain(ctx); err != nil {
			return nfsclient.Attr{}, 0, err
		}
	}
	return c.GetSize(ctx, cr, i)
}

// GetSize is GetAttr for who wants to know the size only: times may be those
// before data that is not sent yet.
func (c *Cache) GetSize(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.Attr, time.Duration, error) {
	now := c.cfg.Now()
	i.mu.Lock()
	if i.fresh(now) && i.pages.State() == coherence.Current {
		a, ttl := i.outward(), i.attrTTL(now)
		i.mu.Unlock()
		return a, ttl, nil
	}
	i.mu.Unlock()
	if err := c.revalidate(ctx, cr, i); err != nil {
		return nfsclient.Attr{}, 0, err
	}
	c.clear(ctx, i)
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.outward(), i.attrTTL(c.cfg.Now()), nil
}

// revalidate asks the server for i's attributes.
func (c *Cache) revalidate(ctx context.Context, cr nfsclient.Cred, i *Inode) error {
	st := c.stamp()
	a, err := c.cl.GetAttr(ctx, cr, i.h)
	if err != nil {
		i.failed(err)
		return err
	}
	i.mu.Lock()
	i.note(st, &a)
	i.unlock()
	return nil
}
