package cache

import "github.com/rdmafs/rdmafs/nfsclient"

// failed inspects the error of a call about i. If the handle is stale, its
// attributes are invalid, and so are the names that led there: any directory on the
// path may have been replaced, not only the last one. The kernel repeats a path walk
// that ended in ESTALE and then revalidates each name, however fresh (LOOKUP_REVAL);
// that walk must find the server's names. mu is not held.
func (i *Inode) failed(err error) {
	if s, ok := nfsclient.StatusOf(err); ok && (s == nfsclient.ErrStale || s == nfsclient.ErrBadHandle) {
		i.mu.Lock()
		i.node.Invalidate()
		i.mu.Unlock()
		i.c.staleGen.Store(i.c.gen.Add(1))
	}
}

// suspect reports whether i is a directory whose attributes are older than the last
// stale handle that was found. It need not be on that handle's path: to record paths
// would cost each inode more than a LOOKUP costs each directory. mu is held.
func (i *Inode) suspect() bool {
	return i.typ == nfsclient.Directory && i.node.Gen() < i.c.staleGen.Load()
}
