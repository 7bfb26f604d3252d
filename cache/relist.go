package cache

import (
	"github.com/rdmafs/rdmafs/nfsclient"
)

// relist is the listing of a directory that was closed, all of it and of one state. Who
// opens the directory again soon, as rm -r does to read it twice, is answered from it
// if the server says that the state is the same: no READDIRPLUS is needed.
type relist struct {
	held   listing
	change nfsclient.ChangeID
	read   stamp // when the first part was asked for
}

// maxRelists bounds the listings that are kept, maxRelisted the entries of each.
const (
	maxRelists  = 8
	maxRelisted = 1 << 11
)

// whole is the state that the listing shows, which began to be read at a time; all false if
// a part is missing, or parts are of different states.
func (l *listing) whole() (change nfsclient.ChangeID, read stamp, all bool) {
	if l.entries > maxRelisted {
		return change, read, false
	}
	for off, n := uint64(0), 0; n < len(l.parts); n++ {
		p := l.after(off)
		if p == nil || !p.agreed || n > 0 && p.change != change {
			return change, read, false
		}
		if n == 0 {
			change, read = p.change, p.at
		}
		if p.eof {
			return change, read, true
		}
		off = p.last()
	}
	return change, read, false
}

// after is the part that follows off.
func (l *listing) after(off uint64) *dirPart {
	for _, p := range l.parts {
		if p.from == off {
			return p
		}
	}
	return nil
}

// keepListing takes l, of a directory that is being closed, or gives it up.
func (c *Cache) keepListing(dir *Inode, l *listing) {
	change, read, all := l.whole()
	if !all || c.policy.Load().AcRegMin == 0 {
		l.reset()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.relists[dir]; old != nil {
		old.held.reset()
	} else if len(c.relists) >= maxRelists {
		for i := range c.relists { // any
			c.dropListing(i)
			break
		}
	}
	if c.relists == nil {
		c.relists = make(map[*Inode]*relist)
	}
	c.relists[dir] = &relist{*l, change, read}
}

// dropListing gives up what is kept of dir; Cache.mu is held.
func (c *Cache) dropListing(dir *Inode) {
	if r := c.relists[dir]; r != nil {
		r.held.reset()
		delete(c.relists, dir)
	}
}

// takeListing returns what is kept of dir, if it is as the server has it: the caller has
// just fetched the attributes. What READDIRPLUS said of the files must be fresh, too: to list again is
// cheaper than to ask for each.
func (c *Cache) takeListing(dir *Inode) (l listing, ok bool) {
	c.mu.Lock()
	r := c.relists[dir]
	delete(c.relists, dir)
	c.mu.Unlock()
	if r == nil {
		return l, false
	}
	if ok = dir.stands(r.read, r.change); !ok {
		r.held.reset()
	}
	return r.held, ok
}
