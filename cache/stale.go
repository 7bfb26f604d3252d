package cache

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// failed inspects the error of a call about i. If the handle is stale, its
// attributes are invalid, and so are the names that led there: any directory on the
// path may have been replaced, not only the last one. The kernel repeats a path walk
// that ended in ESTALE and then revalidates each name, however fresh (LOOKUP_REVAL);
// that walk must find the server's names. mu is not held.
func (i *Inode) failed(err error) {
	if s, ok := nfsclient.StatusOf(err); ok && (s == nfsclient.ErrStale || s == nfsclient.ErrBadHandle) {
		i.mu.Lock()
		i.node.Invalidate()
		tell := !i.staleTold && (i.opens > 0 || i == i.c.root)
		i.staleTold = i.staleTold || tell
		i.mu.Unlock()
		i.c.staleGen.Store(i.c.gen.Add(1))
		if tell {
			i.c.logStale(i)
		}
	}
}

// logStale says what a stale handle means that no path walk can get around; mu is not held.
func (c *Cache) logStale(i *Inode) {
	if i == c.root {
		c.cfg.Log.Warn("the server does not know the export's root any more (ESTALE): the export was withdrawn, or its directory or file system " +
			"replaced; it is asked for again with each use")
		return
	}
	c.cfg.Log.Warn(fmt.Sprintf("%s is open here and was removed or replaced on the server (ESTALE): whoever opens it again finds what is there now", c.path(i)))
}

// suspect reports whether i is a directory whose attributes are older than the last
// stale handle that was found. It need not be on that handle's path: to record paths
// would cost each inode more than a LOOKUP costs each directory. mu is held.
func (i *Inode) suspect() bool {
	return i.typ == nfsclient.Directory && i.node.Gen() < i.c.staleGen.Load()
}
