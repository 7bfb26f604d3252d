package cache

import "sync"

// inodeLock guards an inode. Unlock also does what needs Cache.mu or another
// inode's lock: it releases names that were dropped, and queues notices for the
// kernel.
type inodeLock struct {
	mutex sync.Mutex
	after *afterUnlock // guarded by mutex; the last first
}

// afterUnlock is a list of what to do: each a name or a file.
type afterUnlock struct {
	dropped *dentry // no longer in its directory
	doubted *Inode  // pinned; the kernel must be notified
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
			after.dropped.release()
			continue
		}
		after.doubted.c.notify(notice{ino: after.doubted})
		after.doubted.unpin()
	}
}

// releaseLater releases d, which its directory no longer has, when mu is unlocked;
// mu is held.
func (i *Inode) releaseLater(d *dentry) { i.mu.after = &afterUnlock{dropped: d, next: i.mu.after} }

// notifyLater queues a notice about i when mu is unlocked, one for any number of
// doubts until then; mu is held.
func (i *Inode) notifyLater() {
	if i.mu.after == nil || i.mu.after.doubted == nil {
		i.refs.Add(1)
		i.mu.after = &afterUnlock{doubted: i, next: i.mu.after}
	}
}
