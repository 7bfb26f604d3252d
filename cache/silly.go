package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// silly is the name that a file has which was removed while it is open
// (sillyrename). dir is pinned.
type silly struct {
	dir  *Inode
	name string
	was  string // its name before
	cr   nfsclient.Cred
	busy chan struct{} // being removed until it is closed; guarded by Cache.mu
	gone chan struct{} // closed when the name is not there any more
}

// lateClose bounds the wait for the last close of hidden files. close(2) returns before the daemon has handled FUSE's RELEASE, and on a
// busy machine the program's next call may overtake it.
const lateClose = time.Second

// target is the file that a name stands for which is about to be removed, pinned;
// nil if there is none. A name that is not cached is looked up: the file may be
// cached under other names, whose attributes change, or be open.
func (c *Cache) target(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) (*Inode, error) {
	if i := dir.cachedName(name); i != nil {
		return i, nil
	}
	e, err := c.Lookup(ctx, cr, dir, name)
	if isNoEnt(err) {
		return nil, nil
	}
	return e.Inode, err
}

func isNoEnt(err error) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && s == nfsclient.ErrNoEnt
}

// inUse reports whether i is open, and whether dir and name are its silly name.
func (i *Inode) inUse(dir *Inode, name string) (busy, hidden bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.silly
	return i.opens > 0 && s == nil, s != nil && s.dir == dir && s.name == name
}

// hide renames an open file out of the way.
func (c *Cache) hide(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string, i *Inode) error {
	to, err := c.freeName(ctx, cr, dir, i)
	if err != nil {
		return err
	}
	st := dir.begin()
	fromDir, toDir, err := c.cl.Rename(ctx, cr, dir.h, name, dir.h, to)
	if isNoEnt(err) {
		// A server that executed the call before a crash no longer finds the file
		// when the call is sent again. Nobody else makes a name like this one.
		if _, lerr := c.cl.Lookup(ctx, cr, dir.h, to); lerr == nil {
			err = nil
		}
	}
	if err != nil {
		c.changed(st, dir, fromDir, name, nil, false)
		return err
	}
	if !toDir.Before.Set {
		toDir.Before = fromDir.Before
	}
	c.changed(st, dir, toDir, name, nil, true)
	i.relink()
	i.mu.Lock()
	if i.silly != nil { // another name of it was hidden meanwhile: one is enough
		i.mu.Unlock()
		st := dir.begin()
		w, err := c.cl.Remove(ctx, cr, dir.h, to)
		c.changed(st, dir, w, to, nil, err == nil)
		return err
	}
	dir.refs.Add(1)
	s := &silly{dir: dir, name: to, was: name, cr: cr, gone: make(chan struct{})}
	i.own()
	i.silly = s
	gone := i.opens == 0
	i.refs.Add(1)
	c.mu.Lock()
	c.sillies[i] = s // before the last Release can look for it
	c.mu.Unlock()
	i.mu.Unlock()
	if gone { // closed meanwhile
		c.removeSilly(ctx, i)
	}
	return nil
}

// freeName finds a name for i that does not exist in dir: RENAME would replace
// it. Another client may hide the same file at the same time; Cache.instance keeps
// their names apart.
func (c *Cache) freeName(ctx context.Context, cr nfsclient.Cred, dir, i *Inode) (string, error) {
	for range 1 << 10 {
		c.mu.Lock()
		c.sillyNo++
		n := c.sillyNo
		c.mu.Unlock()
		name := fmt.Sprintf(".nfs%016x%016x%08x", i.ino, c.instance, n)
		_, err := c.cl.Lookup(ctx, cr, dir.h, name)
		if isNoEnt(err) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", ErrBusy
}

// unhide gives a hidden file its name back, unless that exists again: a rename that
// failed may have been executed before a crash of the server.
func (c *Cache) unhide(ctx context.Context, cr nfsclient.Cred, i *Inode, s *silly, name string) {
	if _, err := c.cl.Lookup(ctx, cr, s.dir.h, name); !isNoEnt(err) || !c.claimSilly(i, s) {
		return
	}
	st := s.dir.begin()
	fromDir, toDir, err := c.cl.Rename(ctx, cr, s.dir.h, s.name, s.dir.h, name)
	if !toDir.Before.Set {
		toDir.Before = fromDir.Before
	}
	c.changed(st, s.dir, toDir, name, nil, false)
	i.relink()
	if err != nil && !isNoEnt(err) { // the hidden name is gone: sent again, it had been done
		c.unclaimSilly(s)
		return
	}
	c.endSilly(i, s)
}

// claimSilly makes the caller the one who removes s.
func (c *Cache) claimSilly(i *Inode, s *silly) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sillies[i] != s || s.busy != nil {
		return false
	}
	s.busy = make(chan struct{})
	return true
}

// removing reports whether s is being removed, so that the server's link count may
// include it or not.
func (c *Cache) removing(s *silly) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.busy != nil
}

// unclaimSilly undoes claimSilly, and wakes those who wait.
func (c *Cache) unclaimSilly(s *silly) {
	c.mu.Lock()
	close(s.busy)
	s.busy = nil
	c.mu.Unlock()
}

func (c *Cache) endSilly(i *Inode, s *silly) {
	i.mu.Lock()
	i.silly = nil
	i.relinkedLocked() // that name was left out of the count
	i.mu.Unlock()
	c.mu.Lock()
	delete(c.sillies, i)
	c.mu.Unlock()
	c.unclaimSilly(s)
	close(s.gone)
	s.dir.unpin()
	i.unpin()
}

// removeSilly removes a hidden file that nobody has open any more. If that
// fails, Close tries again.
func (c *Cache) removeSilly(ctx context.Context, i *Inode) {
	c.mu.Lock()
	s := c.sillies[i]
	c.mu.Unlock()
	if s == nil || !c.claimSilly(i, s) {
		return
	}
	st := s.dir.begin()
	w, err := c.cl.Remove(ctx, s.cr, s.dir.h, s.name)
	c.changed(st, s.dir, w, s.name, nil, err == nil)
	if err == nil || isNoEnt(err) {
		i.mu.Lock()
		i.removed = i.opens == 0 && i.node.Nlink <= 1
		i.mu.Unlock()
		c.endSilly(i, s)
		return
	}
	c.unclaimSilly(s)
	c.cfg.Log.Warn(fmt.Sprintf("cache: remove %s, which stood in for an open file: %v", s.name, err))
}

// removeSillies removes every hidden file, open or not, and waits for those
// that are being removed.
func (c *Cache) removeSillies(ctx context.Context) {
	c.mu.Lock()
	all := make([]*Inode, 0, len(c.sillies))
	for i := range c.sillies {
		i.refs.Add(1)
		all = append(all, i)
	}
	c.mu.Unlock()
	for _, i := range all {
		c.awaitRemoval(ctx, i)
		c.removeSilly(ctx, i)
		i.unpin()
	}
}

// awaitRemoval returns when i is not being removed, or ctx ends.
func (c *Cache) awaitRemoval(ctx context.Context, i *Inode) {
	c.mu.Lock()
	var busy chan struct{}
	if s := c.sillies[i]; s != nil {
		busy = s.busy
	}
	c.mu.Unlock()
	if busy == nil {
		return
	}
	select {
	case <-busy:
	case <-ctx.Done():
	}
}

// hiddenFile is a file and the hidden name that it had when it was looked for.
type hiddenFile struct {
	*Inode
	as *silly
}

// hiddenIn is the hidden files that a directory holds, each pinned.
func (c *Cache) hiddenIn(dir *Inode) (all []hiddenFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.sillies {
		if s.dir == dir {
			i.refs.Add(1)
			all = append(all, hiddenFile{i, s})
		}
	}
	return all
}

// removeClosed removes those of all that are not open. It releases the pins.
func (c *Cache) removeClosed(ctx context.Context, all []hiddenFile) {
	for _, i := range all {
		i.mu.Lock()
		closed := i.opens == 0
		i.mu.Unlock()
		if closed {
			c.removeSilly(ctx, i.Inode)
			c.awaitRemoval(ctx, i.Inode)
		}
		i.unpin()
	}
}

// awaitGone waits until the hidden names of all are gone, for lateClose at the most, and reports whether they are.
func (c *Cache) awaitGone(ctx context.Context, all []hiddenFile) bool {
	late := time.NewTimer(c.lateClose)
	defer late.Stop()
	for _, i := range all {
		select {
		case <-i.as.gone:
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// emptying makes a call that removes or replaces an empty directory, and makes it
// again if the directory was not empty because of hidden files that have been
// closed, or are about to be: the last close does not wait until they are removed.
func (c *Cache) emptying(ctx context.Context, dir *Inode, call func() error) error {
	hidden := c.hiddenIn(dir)
	err := call()
	c.removeClosed(ctx, hidden)
	s, ok := nfsclient.StatusOf(err)
	if full := ok && (s == nfsclient.ErrNotEmpty || s == nfsclient.ErrExist); full && len(hidden) > 0 && c.awaitGone(ctx, hidden) {
		err = call()
	}
	return err
}
