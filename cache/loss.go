package cache

import (
	"context"
	"fmt"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// A write that fails in the background is counted at its inode, and each opening
// remembers the count up to which its Fsync has returned errors. Write and Flush
// return them, too, but do not advance it: the kernel cuts a large write into
// pieces and hides the error of one behind a short count, and a process that exits
// closes its descriptors without looking at the result.

// loss is data that could not be written, while no call has returned the error.
type loss struct {
	err  error
	path string // empty until it was looked up
}

// maxLost bounds the losses that Sync and Close report one by one.
const maxLost = 1000

// fail records that data could not be written; mu is held.
func (i *Inode) fail(err error) {
	if i.removed {
		if s, ok := nfsclient.StatusOf(err); !ok || s != nfsclient.ErrStale {
			i.c.cfg.Log.Error(fmt.Sprintf("cache: data of %s, which has been removed, is lost: %v", i.c.path(i), err))
		}
		return // no program can read it again
	}
	i.wb.Errors().Add(err)
	i.doubt() // the kernel has what the server has not
	c := i.c
	c.mu.Lock()
	defer c.mu.Unlock()
	_, again := c.lost[i]
	switch {
	case again:
	case len(c.lost) < maxLost:
		c.lost[i] = &loss{err: err}
	default:
		c.lostMore++
		c.cfg.Log.Error(fmt.Sprintf("cache: data of %s is lost: %v", c.paths(i)[0], err))
		return
	}
	if i.opens == 0 {
		c.logLoss(i)
	}
}

// logLoss logs a loss that no program can be told of any more, while the path can
// still be found; Cache.mu is held.
func (c *Cache) logLoss(i *Inode) {
	if l := c.lost[i]; l != nil && l.path == "" {
		l.path = c.paths(i)[0]
		c.cfg.Log.Error(fmt.Sprintf("cache: data of %s is lost, and no program was told: %v", l.path, l.err))
	}
}

// pending is the last error since f was opened that its Fsync has not returned. The
// caller returns it to a program.
func (f *File) pending() error {
	f.i.mu.Lock()
	err := f.i.wb.Errors().Since(max(f.told, f.opened))
	f.i.mu.Unlock()
	return f.i.reported(err)
}

// report is pending for Fsync, which returns each error once. The first opening that
// asks gets one from before it was opened, too, if no program has seen that.
func (f *File) report() error {
	f.i.mu.Lock()
	err := f.i.wb.Errors().Since(f.told)
	f.told = f.i.wb.Errors().Count()
	f.i.mu.Unlock()
	return f.i.reported(err)
}

// reported passes on an error that is returned to a program now. mu is not held.
func (i *Inode) reported(err error) error {
	if err != nil {
		i.c.mu.Lock()
		delete(i.c.lost, i)
		i.c.mu.Unlock()
	}
	return err
}

// Flush is close(2): everything written so far is stable, or the error says why
// not. A file that was opened for reading only waits for nothing.
func (f *File) Flush(ctx context.Context) error {
	if !f.mode.Write {
		return nil
	}
	if err := f.i.sync(ctx); err != nil {
		return err
	}
	if f.lockLost.Load() {
		return ErrLockLost
	}
	return f.pending()
}

// Fsync makes everything stable that was written to the file so far, through any
// opening. Only Fsync returns an error for the last time.
func (f *File) Fsync(ctx context.Context) error {
	if err := f.i.sync(ctx); err != nil {
		return err
	}
	if f.lockLost.Load() {
		return ErrLockLost
	}
	return f.report()
}

// nameLosses looks for the paths of what is lost, while names are there.
func (c *Cache) nameLosses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []*Inode
	for i, l := range c.lost {
		if l.path == "" {
			of = append(of, i)
		}
	}
	for n, path := range c.paths(of...) {
		c.lost[of[n]].path = path
	}
}

// takeLost is the write errors that were not returned to any program.
func (c *Cache) takeLost() (errs []error) {
	c.nameLosses()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lost {
		errs = append(errs, fmt.Errorf("cache: data of %s lost: %w", l.path, l.err))
	}
	if c.lostMore > 0 {
		errs = append(errs, fmt.Errorf("cache: data of %d more files lost", c.lostMore))
	}
	clear(c.lost)
	c.lostMore = 0
	return errs
}

// place is the name that a file last had as far as we know.
type place struct {
	dir  *Inode
	name string
}

// remember keeps the name of what may have data to lose when the cache lets go of
// d; Cache.mu is held.
func (c *Cache) remember(d *dentry) {
	if d.child == nil {
		return
	}
	_, dirty := c.dirty[d.child]
	_, opened := c.opened[d.child]
	if dirty || opened {
		c.places[d.child] = place{d.dir, d.name}
	}
}

// path is paths of i; Cache.mu is not held.
func (c *Cache) path(i *Inode) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths(i)[0]
}

// paths are quoted paths of inodes below the root, as far as their names are
// cached or remembered, else their numbers; Cache.mu is held. It walks through all names, so
// it is for errors only.
func (c *Cache) paths(of ...*Inode) []string {
	if len(of) == 0 {
		return nil
	}
	names := make(map[*Inode]*dentry, len(of))
	for _, i := range of {
		names[i] = nil
	}
	for d := c.names.oldest; d != nil; d = d.newer {
		if d.child == nil {
			continue
		}
		if _, wanted := names[d.child]; wanted || d.child.typ == nfsclient.Directory {
			names[d.child] = d
		}
	}
	all := make([]string, 0, len(of))
	for _, i := range of {
		dir, parts, note := i, []string(nil), ""
		if s := c.sillies[i]; s != nil {
			dir, parts, note = s.dir, []string{s.was}, " (removed while open)"
		}
		for dir != c.root && len(parts) < 1000 { // directories may have been moved into each other
			d := names[dir]
			if last, ok := c.places[dir]; ok && d == nil {
				dir, parts, note = last.dir, append([]string{last.name}, parts...), " (last known name)"
				continue
			}
			if d == nil {
				break
			}
			dir, parts = d.dir, append([]string{d.name}, parts...)
		}
		path := strings.Join(parts, "/")
		switch {
		case len(parts) == 0:
			all = append(all, fmt.Sprintf("inode %d", i.ino))
		case dir == c.root:
			all = append(all, fmt.Sprintf("%q%s", "/"+path, note))
		default:
			all = append(all, fmt.Sprintf("%q%s", "…/"+path, note))
		}
	}
	return all
}
