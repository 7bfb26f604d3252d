package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// stamp says when a call was sent, in the order of Cache.gen and by the clock.
type stamp = coherence.Stamp

func (c *Cache) stamp() stamp { return stamp{Gen: c.gen.Add(1), At: c.since(c.cfg.Now())} }

// since is the time that package coherence counts.
func (c *Cache) since(t time.Time) time.Duration { return t.Sub(c.born) }

// rules are those of i's type.
func (i *Inode) rules() coherence.Rules {
	p := i.c.policy.Load()
	if i.typ == nfsclient.Directory {
		return coherence.Rules{Type: i.typ, Min: p.AcDirMin, Max: p.AcDirMax}
	}
	return coherence.Rules{Type: i.typ, Min: p.AcRegMin, Max: p.AcRegMax}
}

// fresh reports whether the attributes are fresh; mu is held.
func (i *Inode) fresh(now time.Time) bool { return i.node.Fresh(i.c.since(now)) }

// ttl is how long they stay fresh; mu is held.
func (i *Inode) ttl(now time.Time) time.Duration { return i.node.TTL(i.c.since(now)) }

// nameTTL is how long the kernel may cache names in the directory; mu is held.
func (i *Inode) nameTTL(now time.Time) time.Duration {
	if i.c.cfg.Names == NoNames {
		return 0
	}
	return i.ttl(now)
}

// setID is the mode bits suid and sgid.
const setID = 0o6000

// attrTTL is how long the kernel may cache them. It does not learn of a change that
// completes while it is given older attributes, of the times that the server gives to
// data that is written later, or of the removal of a silly name: until then it must
// ask each time. So it must for a program with suid or sgid, which the server takes
// away when the file is written to: the kernel executes by the mode that it has. mu is
// held.
func (i *Inode) attrTTL(now time.Time) time.Duration {
	if i.node.Changing() || !i.wb.Empty() || i.silly != nil || i.node.Mode&setID != 0 && i.typ == nfsclient.Regular {
		return 0
	}
	return i.ttl(now)
}

// note handles attributes from the reply to a call, sent at st, that changes
// nothing; mu is held.
func (i *Inode) note(st stamp, a *nfsclient.Attr) {
	i.apply(i.node.Note(i.rules(), st, i.c.gen.Add(1), a))
}

// begin announces a change of ours; finish must follow. mu is not held.
func (i *Inode) begin() stamp {
	i.mu.Lock()
	i.node.Begin()
	i.mu.Unlock()
	return i.c.stamp()
}

// finish ends a change of ours that returned w; mu is held. With assume, a
// change without attributes from before it is taken to be the only one.
func (i *Inode) finish(st stamp, w *nfsclient.Wcc, assume bool) {
	i.apply(i.node.Finish(i.rules(), st, i.c.gen.Add(1), w, assume))
}

// apply carries out what new attributes require; mu is held.
func (i *Inode) apply(e coherence.Effect) {
	if e&coherence.RightsChanged != 0 {
		i.dropRights()
	}
	if e&coherence.Foreign == 0 {
		return
	}
	i.c.foreign.Store(i.c.gen.Add(1))
	i.detachSpans(0, maxOffset)
	i.forgetNames(true)
	if i.typ == nfsclient.Regular || i.typ == nfsclient.SymbolicLink {
		i.doubt() // a link whose handle is used again has another target
	}
}

// outward is the attributes as users see them, with the size of data that the server
// does not have yet; mu is held.
func (i *Inode) outward() nfsclient.Attr {
	a := i.node.Full(i.typ)
	if i.typ == nfsclient.Regular && !i.wb.Empty() {
		a.Size = max(a.Size, uint64(i.wb.End()))
	}
	if i.silly != nil && a.Nlink > 0 && !i.c.removing(i.silly) {
		a.Nlink-- // the silly name does not count
	}
	return a
}

// GetAttr returns i's attributes and how long they may be cached. Written data is
// sent first, as by the Linux client: only the server knows the times that it will
// have, which would otherwise change when it is sent. That needs no COMMIT.
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

// GetSize is GetAttr for callers that need the size only: times may be those from
// before data that is not sent yet. While a silly name is being removed it waits for that:
// the link count that is known, or that comes, may include the name or not.
func (c *Cache) GetSize(ctx context.Context, cr nfsclient.Cred, i *Inode) (nfsclient.Attr, time.Duration, error) {
	now := c.cfg.Now()
	i.mu.Lock()
	hidden := i.silly
	if i.fresh(now) && i.pages.State() == coherence.Current && (hidden == nil || !c.removing(hidden)) {
		a, ttl := i.outward(), i.attrTTL(now)
		i.mu.Unlock()
		c.counts.attributeHits.Add(1)
		return a, ttl, nil
	}
	i.mu.Unlock()
	c.counts.attributeMisses.Add(1)
	for {
		if err := c.revalidateSoftly(ctx, cr, i); err != nil {
			return nfsclient.Attr{}, 0, err
		}
		c.clear(ctx, i)
		i.mu.Lock()
		if i.silly == hidden && (hidden == nil || !c.removing(hidden)) {
			a, ttl := i.outward(), i.attrTTL(c.cfg.Now())
			i.mu.Unlock()
			return a, ttl, nil
		}
		hidden = i.silly
		i.mu.Unlock()
		c.awaitRemoval(ctx, i)
	}
}

// revalidate fetches i's attributes from the server.
func (c *Cache) revalidate(ctx context.Context, cr nfsclient.Cred, i *Inode) error {
	return c.revalidateBy(ctx, c.cl, cr, i)
}

func (c *Cache) revalidateBy(ctx context.Context, cl revalidator, cr nfsclient.Cred, i *Inode) error {
	st := c.stamp()
	a, err := cl.GetAttr(ctx, cr, i.h)
	if err != nil {
		i.failed(err)
		return err
	}
	i.mu.Lock()
	i.note(st, &a)
	i.mu.Unlock()
	return nil
}
