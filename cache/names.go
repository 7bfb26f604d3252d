package cache

import (
	"context"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// dentry is a cached name: of child, which it pins, or one that is known not to
// exist. It is valid as long as the directory's state is. What no other mutex is named for
// is constant or guarded by dir.mu.
type dentry struct {
	dir   *Inode
	name  string
	child *Inode // nil: there is no such name
	shown bool   // the kernel was given it
	// unasked: there was no such name by what was known of the directory alone, which
	// is believed for a shorter time than an answer of the server for the name.
	unasked bool
	sum     uint32 // of name

	next         *dentry // of dir.names
	older, newer *dentry // of Cache.names, guarded by Cache.mu
}

// nameTable is the names of a directory.
type nameTable = table[dentry, byName]

type byName struct{}

func (byName) hash(d *dentry) uint64 { return uint64(d.sum) }

func (byName) next(d *dentry) **dentry { return &d.next }

// dentry is what is cached of name, or nil; mu is held.
func (i *Inode) dentry(name string) *dentry {
	if i.names == nil {
		return nil
	}
	sum := i.c.sum(name)
	d := i.names.first(uint64(sum))
	for d != nil && (d.sum != sum || d.name != name) {
		d = d.next
	}
	return d
}

// nameQueue is the names of all directories in the order in which they came.
type nameQueue struct {
	oldest, newest *dentry
	n              int
}

func (q *nameQueue) add(d *dentry) {
	d.older = q.newest
	if d.older != nil {
		d.older.newer = d
	} else {
		q.oldest = d
	}
	q.newest = d
	q.n++
}

// remove takes out d, which is in.
func (q *nameQueue) remove(d *dentry) {
	if d.older != nil {
		d.older.newer = d.newer
	} else {
		q.oldest = d.newer
	}
	if d.newer != nil {
		d.newer.older = d.older
	} else {
		q.newest = d.older
	}
	d.older, d.newer = nil, nil
	q.n--
}

// maxNames bounds the names of all directories; the oldest go first.
const maxNames = 1 << 17

var errNoEntry = localError("LOOKUP", nfsclient.ErrNoEnt)

// release drops what d refers to, once the directory no longer has it. No lock is
// held.
func (d *dentry) release() {
	c := d.dir.c
	c.mu.Lock()
	c.names.remove(d)
	c.remember(d)
	c.mu.Unlock()
	if d.child != nil {
		d.child.unpin()
	}
}

// setName makes name stand for child, nil for nothing; mu is held.
func (i *Inode) setName(name string, child *Inode) *dentry {
	return i.replaceName(i.dentry(name), name, child)
}

// replaceName is setName, where old, which may be nil, is what the name has stood for; mu is
// held.
func (i *Inode) replaceName(old *dentry, name string, child *Inode) *dentry {
	if old != nil {
		if old.child == child {
			old.unasked = false
			return old
		}
		i.names.remove(old)
		i.releaseLater(old)
	}
	d := &dentry{dir: i, name: name, child: child, sum: i.c.sum(name)}
	if child != nil {
		child.refs.Add(1)
	}
	if i.names == nil {
		i.own()
		i.names = new(nameTable)
	}
	i.names.insert(d)
	c := i.c
	c.mu.Lock()
	c.names.add(d)
	c.mu.Unlock()
	return d
}

// dropName forgets what name stands for; mu is held.
func (i *Inode) dropName(name string) {
	if d := i.dentry(name); d != nil {
		i.dropDentry(d)
	}
}

// dropDentry drops d, which i has; mu is held.
func (i *Inode) dropDentry(d *dentry) {
	i.names.remove(d)
	i.releaseLater(d)
	if d.child != nil {
		i.node.Incomplete()
	}
}

// learnName is setName for what the server has said of a name of the present state; mu is held.
func (i *Inode) learnName(name string, child *Inode) *dentry {
	d := i.dentry(name)
	if child != nil && (d == nil || d.child != child) {
		i.node.Incomplete() // a change that the attributes did not show
	}
	return i.replaceName(d, name, child)
}

// absent is how long it may be believed that name, of which the server was not asked, does
// not exist, 0 if that is not known; mu is held.
// Servers have names that no call of ours has made and no listing shows, all with a dot in
// front, such as .snapshot.
func (i *Inode) absent(name string, now time.Time) time.Duration {
	if strings.HasPrefix(name, ".") {
		return 0
	}
	c := i.c
	return i.node.Complete(i.rules(), c.since(now), c.policy.Load().AcRegMin, c.foreign.Load())
}

// forgetNames forgets all names and, with notify, makes the kernel look up again
// those that it was given; mu is held.
func (i *Inode) forgetNames(notify bool) {
	if i.names == nil {
		return
	}
	for _, d := range i.names.buckets {
		for ; d != nil; d = d.next {
			if notify && d.shown {
				i.c.notify(notice{ino: i, name: d.name})
			}
			i.releaseLater(d)
		}
	}
	i.names = nil
}

// trimNames drops the oldest names beyond maxNames. No lock is held.
func (c *Cache) trimNames() {
	for {
		c.mu.Lock()
		d := c.names.oldest
		if c.names.n <= maxNames || d == nil {
			c.mu.Unlock()
			return
		}
		c.names.remove(d)
		c.names.add(d) // another trimmer takes another one
		d.dir.refs.Add(1)
		c.mu.Unlock()
		d.dir.mu.Lock()
		if d.dir.dentry(d.name) == d {
			d.dir.dropDentry(d)
		}
		d.dir.mu.Unlock()
		d.dir.unpin()
	}
}

// namesAgree reports whether names from the reply to a call sent at st, which
// carries the directory's attributes da, may be cached: they must be of the same
// state as all other names. mu is held.
func (i *Inode) namesAgree(st stamp, da *nfsclient.Attr) bool {
	return i.node.Agrees(st, da)
}

// Lookup finds name in dir. If there is none, the error's status is
// nfsclient.ErrNoEnt, and the Entry says how long that may be cached.
func (c *Cache) Lookup(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) (Entry, error) {
	if c.cfg.Names != NoNames {
		if e, err, ok := c.lookupCached(&cr, dir, name, false); ok && (err == nil || c.cfg.Names == AllNames) {
			c.counts.nameHits.Add(1)
			return e, err
		}
	}
	c.counts.nameMisses.Add(1)
	e, err := c.lookupSoftly(ctx, cr, dir, name)
	if err != nil && c.cfg.Names == ExistingNames {
		e.EntryTTL = 0
	}
	return e, err
}

// lookupCached answers from memory if the directory, the name and the user's right
// to look it up are fresh; if any is not, one LOOKUP refreshes them all. Attributes
// of the file that have merely expired are returned with a timeout of zero: the
// kernel asks again if it needs them, and an open asks in any case. With listing, they
// are for a listing, which can reach the kernel later than changes that follow.
func (c *Cache) lookupCached(cr *nfsclient.Cred, dir *Inode, name string, listing bool) (Entry, error, bool) {
	now := c.cfg.Now()
	key := c.user(cr)
	dir.mu.Lock()
	d := dir.dentry(name)
	ttl := dir.ttl(now)
	unasked := d == nil || d.unasked
	if unasked {
		if ttl = dir.absent(name, now); ttl == 0 {
			dir.mu.Unlock()
			return Entry{}, nil, false
		}
	}
	got, ok := dir.granted(key, nfsclient.AccessLookup, now)
	if !ok || got == 0 {
		dir.mu.Unlock()
		return Entry{}, nil, false
	}
	e := Entry{EntryTTL: ttl}
	if c.cfg.Names == NoNames {
		e.EntryTTL = 0
	}
	if unasked {
		d = dir.setName(name, nil)
		d.shown, d.unasked = true, true
		dir.mu.Unlock()
		c.trimNames()
		return e, errNoEntry, true
	}
	d.shown = true
	if d.child == nil {
		dir.mu.Unlock()
		return e, errNoEntry, true
	}
	e.Inode = d.child
	d.child.refs.Add(1)
	dir.mu.Unlock()
	return c.asKnown(e, now, listing)
}

// asKnown adds to e, a found name, what is known of the file. ok is false, and the file is let go of,
// if that cannot be used.
func (c *Cache) asKnown(e Entry, now time.Time, listing bool) (_ Entry, err error, ok bool) {
	i := e.Inode
	i.mu.Lock()
	usable := i.node.Valid() && i.pages.State() == coherence.Current && !i.suspect()
	e.Attr, e.AttrTTL = i.outward(), i.attrTTL(now)
	if listing && i.typ == nfsclient.Directory {
		i.inListing = true
	}
	i.mu.Unlock()
	if !usable {
		i.unpin()
		return Entry{}, nil, false
	}
	return e, nil, true
}

func (c *Cache) lookupServer(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) (Entry, error) {
	return c.lookupBy(ctx, c.cl, cr, dir, name)
}

func (c *Cache) lookupBy(ctx context.Context, cl revalidator, cr nfsclient.Cred, dir *Inode, name string) (Entry, error) {
	st := c.stamp()
	found, err := cl.Lookup(ctx, cr, dir.h, name)
	status, answered := nfsclient.StatusOf(err)
	if err != nil {
		dir.failed(err)
		if found.Dir == nil || !answered {
			return Entry{}, err
		}
	}
	var child *Inode
	if err == nil {
		if found.Attr == nil {
			a, err := cl.GetAttr(ctx, cr, found.Handle)
			if err != nil {
				return Entry{}, err
			}
			found.Attr = &a
		}
		child = c.intern(found.Handle, found.Attr)
		child.mu.Lock()
		child.note(st, found.Attr)
		child.mu.Unlock()
	}
	e := c.enter(ctx, st, cr, dir, name, child, found.Dir, err == nil || status == nfsclient.ErrNoEnt)
	c.trimNames()
	return e, err
}

// enter caches the result of a lookup, if known says that it is one, and returns
// it as an Entry that takes over child's reference.
func (c *Cache) enter(ctx context.Context, st stamp, cr nfsclient.Cred, dir *Inode, name string, child *Inode, da *nfsclient.Attr, known bool) Entry {
	var ttl time.Duration
	dir.mu.Lock()
	if known {
		dir.answered(st, da, c.user(&cr), nfsclient.AccessLookup, nfsclient.AccessLookup)
		if dir.namesAgree(st, da) {
			dir.learnName(name, child).shown = true
			ttl = dir.nameTTL(c.cfg.Now())
		} else if d := dir.dentry(name); d != nil && d.child != child && dir.node.Undisturbed(st) {
			dir.dropName(name)
		}
	} else if da != nil {
		dir.note(st, da)
	}
	dir.mu.Unlock()
	if child == nil {
		return Entry{EntryTTL: ttl}
	}
	return c.entry(ctx, child, ttl)
}

// entry returns child as an Entry, after the kernel has dropped what it had of an
// older state.
func (c *Cache) entry(ctx context.Context, child *Inode, ttl time.Duration) Entry {
	c.clear(ctx, child)
	child.mu.Lock()
	defer child.mu.Unlock()
	return Entry{Inode: child, Attr: child.outward(), AttrTTL: child.attrTTL(c.cfg.Now()), EntryTTL: ttl}
}

// Readlink is the target of a symbolic link; it is not cached.
func (c *Cache) Readlink(ctx context.Context, cr nfsclient.Cred, i *Inode) (string, error) {
	st := c.stamp()
	target, a, err := c.cl.Readlink(ctx, cr, i.h)
	if err != nil {
		i.failed(err)
		return "", err
	}
	if a != nil {
		i.mu.Lock()
		i.note(st, a)
		i.mu.Unlock()
	}
	return target, nil
}
