package cache

import "github.com/rdmafs/rdmafs/nfsclient"

// failed looks at an error about i. A stale handle's attributes must not be
// believed any more, nor the names that led there: any directory on the path may
// have been replaced, not only the last. The kernel walks a path that ended in
// ESTALE once more and then asks about each name, however fresh it has it
// (LOOKUP_REVAL); that walk must find the server's names. mu is not held.
func (i *Inode) failed(err error) {
	if s, ok := nfsclient.StatusOf(err); ok && (s == nfsclient.ErrStale || s == nfsclient.ErrBadHandle) {
		i.mu.Lock()
		i.node.Doubt()
		i.mu.Unlock()
		i.c.staleGen.Store(i.c.gen.Add(1))
	}
}

// suspect says that i is a directory of which nothing has been heard since a
// handle was found stale. It need not lie on that handle's path: to keep the
// paths would cost each inode more than a LOOKUP costs each directory. mu is
// held.
func (i *Inode) suspect() bool {
	return i.typ == nfsclient.Directory && i.node.Gen() < i.c.staleGen.Load()
}
