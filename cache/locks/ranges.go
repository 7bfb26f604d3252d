package locks

import (
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Owner is whose locks do not conflict with each other.
type Owner = nfsclient.LockOwner

// Lock is a range of bytes and a type.
type Lock = nfsclient.Lock

func overlap(a, b Lock) bool { return a.First <= b.Last && b.First <= a.Last }

// conflict reports whether two owners cannot hold a and b at once.
func conflict(a, b Lock) bool {
	return overlap(a, b) && a.Type != nfsclient.Unlocked && b.Type != nfsclient.Unlocked &&
		(a.Type == nfsclient.WriteLock || b.Type == nfsclient.WriteLock)
}

// set is what one owner holds once l is granted, or given up: ranges are split and
// joined as fcntl(2) does. held is in order, as is the result, which shares no memory
// with it.
func set(held []Lock, l Lock) []Lock {
	after := make([]Lock, 0, len(held)+2)
	for _, h := range held {
		if !overlap(h, l) {
			after = append(after, h)
			continue
		}
		if h.First < l.First {
			after = append(after, Lock{Type: h.Type, First: h.First, Last: l.First - 1})
		}
		if h.Last > l.Last {
			after = append(after, Lock{Type: h.Type, First: l.Last + 1, Last: h.Last})
		}
	}
	if l.Type != nfsclient.Unlocked {
		after = append(after, l)
	}
	slices.SortFunc(after, func(a, b Lock) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	return join(after)
}

// join joins neighbours of one type, in place.
func join(in []Lock) []Lock {
	out := in[:0]
	for _, l := range in {
		if n := len(out); n > 0 && out[n-1].Type == l.Type && out[n-1].Last+1 == l.First {
			out[n-1].Last = l.Last
			continue
		}
		out = append(out, l)
	}
	return out
}
