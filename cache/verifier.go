package cache

import (
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// restarts is the state of a file whose last COMMIT answered with a verifier
// that none of its WRITEs had. If that goes on, the server loses data as fast as
// it is written again, so each further COMMIT waits longer. The first one does
// not: a server may restart.
type restarts struct{ wait time.Duration }

// How long the next COMMIT waits, after which its verifier is looked at anew.
const (
	commitFirst = 100 * time.Millisecond
	commitLast  = 5 * time.Second
)

// judge takes the answer to a COMMIT into account: so many extents had its
// verifier, and so many had not. mu is held.
func (i *Inode) judge(matched, lost int) {
	w := &i.wb
	switch {
	case lost == 0 && matched > 0 && w.restarts != nil:
		if w.restarts.wait > 0 {
			i.c.unreliable.Store(false)
		}
		w.restarts = nil
	case lost == 0 || matched > 0:
	case w.restarts == nil:
		w.restarts = &restarts{}
	default:
		r := w.restarts
		r.wait = min(max(2*r.wait, commitFirst), commitLast)
		if !i.c.unreliable.Swap(true) {
			i.c.cfg.Log.Warn(fmt.Sprintf("cache: the server answers each COMMIT with another write verifier, as if it had lost what was written: writing it again and again, at most every %v", commitLast))
		}
	}
}

// writersOf is who has written l, each user once.
func writersOf(l layer) (all []nfsclient.Cred) {
	var known []userKey
next:
	for _, e := range l {
		for _, k := range known {
			if k == e.key {
				continue next
			}
		}
		known = append(known, e.key)
		all = append(all, e.cr)
	}
	return all
}

// denied says that a call failed for who made it.
func denied(err error) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && (s == nfsclient.ErrAccess || s == nfsclient.ErrPerm)
}
