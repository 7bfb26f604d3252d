package locks

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

// Owner is whose locks do not conflict with each other.
type Owner = nfsclient.LockOwner

// Lock is a range of bytes and a type.
type Lock = nfsclient.Lock

// rangeOf is what l locks; it does not unlock.
func rangeOf(l Lock) ranges.Range {
	return ranges.Range{First: l.First, Last: l.Last, Exclusive: l.Type == nfsclient.WriteLock}
}

// lockOf is a range that is held.
func lockOf(r ranges.Range) Lock {
	l := Lock{Type: nfsclient.ReadLock, First: r.First, Last: r.Last}
	if r.Exclusive {
		l.Type = nfsclient.WriteLock
	}
	return l
}

func overlap(a, b Lock) bool { return a.First <= b.Last && b.First <= a.Last }

// conflict reports whether two owners cannot have what a and b ask for at once.
func conflict(a, b Lock) bool {
	return a.Type != nfsclient.Unlocked && b.Type != nfsclient.Unlocked && rangeOf(a).Conflicts(rangeOf(b))
}

// against is the first range of another owner that conflicts with l.
func against(held ranges.Set, l Lock) (ranges.Range, bool) {
	if l.Type == nfsclient.Unlocked {
		return ranges.Range{}, false
	}
	return held.Conflict(rangeOf(l))
}

// set is what one owner holds once l is granted, or given up.
func set(held ranges.Set, l Lock) ranges.Set {
	if l.Type == nfsclient.Unlocked {
		return held.Unlock(l.First, l.Last)
	}
	return held.Lock(rangeOf(l))
}
