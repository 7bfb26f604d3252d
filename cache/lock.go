package cache

import "sync"

// inodeLock guards an inode. Unlock does what the holder could not, since it takes
// locks that come before this one or are of the same kind: it lets go of names that
// were dropped, and queues what the kernel must be told.
type inodeLock struct {
	mutex sync.Mutex
	after *afterUnlock // guarded by mutex; the last first
}

// afterUnlock is one thing to do, a name or a file, and those before it.
type afterUnlock struct {
	dropped *dentry // no longer in its directory
	doubted *Inode  // pinned; the kernel must be told
	next    *afterUnlock
}

func (l *inodeLock) Lock() { l.mutex.Lock() }

// Unlock must not be called with Cache.mu or another inode's lock held.
func (l *inodeLock) Unlock() {
	if l.after != nil {
		l.unlockAndRun()
		return
	}
	l.mutex.Unlock()
}

func (l *inodeLock) unlockAndRun() {
	after := l.after
	l.after = nil
	l.mutex.Unlock()
	for ; after != nil; after = after.next {
		if after.dropped != nil {
			after.dropped.let()
			continue
		}
		after.doubted.c.tell(notice{ino: after.doubted})
		after.doubted.unpin()
	}
}

// letGo lets go of d, which its directory does not have any more; mu is held.
func (i *Inode) letGo(d *dentry) { i.mu.after = &afterUnlock{dropped: d, next: i.mu.after} }

// tellLater queues a notice of i, once for however many doubts there are until mu
// is released; mu is held.
func (i *Inode) tellLater() {
	if i.mu.after == nil || i.mu.after.doubted == nil {
		i.refs.Add(1)
		i.mu.after = &afterUnlock{doubted: i, next: i.mu.after}
	}
}
