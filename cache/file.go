package cache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/cache/readahead"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// maxOffset bounds offsets in files.
const maxOffset = int64(1<<63 - 1)

// File is an open file. Its calls to the server carry the opener's
// credentials.
type File struct {
	c    *Cache
	i    *Inode
	cr   nfsclient.Cred
	key  userKey
	mode OpenMode
	open *opening

	opened uint64 // the inode's errors when it was opened
	told   uint64 // Fsync has returned errors up to here; by i.mu

	lockLost atomic.Bool // a lock taken through it: see Cache.Lost

	mu       sync.Mutex
	released bool
	window   readahead.Window
}

// Open opens a file, if the user has the rights that mode needs, with attributes from
// the server. keepCache says that the file has not changed since the kernel's pages
// were read.
func (c *Cache) Open(ctx context.Context, cr nfsclient.Cred, i *Inode, mode OpenMode) (f *File, keepCache bool, err error) {
	if i.typ != nfsclient.Regular {
		return nil, false, localError("OPEN", nfsclient.ErrInval)
	}
	if mode.Write || mode.Truncate {
		if err := c.altering.begin("OPEN"); err != nil {
			return nil, false, err
		}
		defer c.altering.end()
	}
	open, r, err := c.openServer(ctx, cr, i, mode)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			open.release()
		}
	}()
	if err := c.mayOpen(ctx, cr, i, mode, &r); err != nil {
		return nil, false, err
	}
	if mode.Truncate {
		// Unlike in truncate(2), the kernel writes pages back while it waits for this
		// reply: pages that were stored to before must not be written after the
		// truncation. There are none if the file is not open.
		i.mu.Lock()
		if i.opens > 0 {
			i.doubt()
		}
		i.mu.Unlock()
		c.clear(ctx, i)
		var none uint64
		if _, _, err := c.setAttrOf(ctx, cr, i, open, nfsclient.SetAttr{Size: &none}); err != nil {
			return nil, false, err
		}
	}
	sure, err := c.revalidateCrossed(ctx, cr, i)
	if err != nil {
		return nil, false, err
	}
	i.mu.Lock()
	if !sure {
		i.detachSpans(0, maxOffset)
		i.doubt()
	}
	keepCache = i.pages.Open()
	i.mu.Unlock()
	c.clear(ctx, i)
	return c.newFile(cr, i, mode, open), keepCache, nil
}

// revalidateCrossed fetches attributes again if those just fetched have crossed with
// a change of ours, so that they do not show whether there was a change elsewhere.
// sure says that they do now.
func (c *Cache) revalidateCrossed(ctx context.Context, cr nfsclient.Cred, i *Inode) (sure bool, err error) {
	for range 2 {
		i.mu.Lock()
		sure = i.node.Valid()
		i.mu.Unlock()
		if sure {
			return true, nil
		}
		if err := c.revalidate(ctx, cr, i); err != nil {
			return false, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.node.Valid(), nil
}

// newFile is a File with what the server keeps of it, which it takes.
func (c *Cache) newFile(cr nfsclient.Cred, i *Inode, mode OpenMode, open *opening) *File {
	i.refs.Add(1)
	c.opens.Add(1)
	i.mu.Lock()
	i.own()
	if i.opens++; i.opens == 1 {
		c.mu.Lock()
		c.opened[i] = struct{}{}
		c.mu.Unlock()
	}
	if mode.Write {
		c.altering.n.Add(1) // its caller has begun a change
		i.ownWritten()
	}
	i.removed = false // another client has given it a name
	failed := i.wb.Errors().Count()
	f := &File{c: c, i: i, cr: cr, key: c.user(&cr), mode: mode, open: open, opened: failed, told: failed}
	if failed > 0 {
		c.mu.Lock()
		if c.lost[i] != nil {
			f.told--
		}
		c.mu.Unlock()
	}
	i.mu.Unlock()
	if mode.Read {
		c.polls.add(i, cr)
	}
	return f
}

// Inode is the file that f is an opening of.
func (f *File) Inode() *Inode { return f.i }

// Direct says whether f was opened Direct.
func (f *File) Direct() bool { return f.mode.Direct }

// Release ends the use of f; data not yet written goes on being written. What
// was read ahead is dropped with the last opening, and so is a file that
// was removed while open.
func (f *File) Release() {
	f.mu.Lock()
	if f.released {
		f.mu.Unlock()
		panic("cache: file released twice")
	}
	f.released = true
	f.mu.Unlock()
	i, c := f.i, f.c
	c.opens.Add(-1)
	if f.mode.Read {
		c.polls.remove(i)
	}
	if f.mode.Write {
		c.altering.end()
	}
	i.mu.Lock()
	i.opens--
	last := i.opens == 0
	hidden := last && i.silly != nil
	if last {
		c.mu.Lock()
		delete(c.opened, i)
		c.logLoss(i)
		c.mu.Unlock()
		i.detachSpans(0, maxOffset)
	}
	i.mu.Unlock()
	f.open.release()
	if hidden {
		i.refs.Add(1)
		if !c.spawn(func() { i.runSillyRemove(c.life) }) {
			i.unpin()
		}
	}
	i.unpin()
}

func (i *Inode) runSillyRemove(ctx context.Context) {
	i.c.removeSilly(ctx, i)
	i.unpin()
}
