package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Attrs is what is kept of nfsclient.Attr. The type is kept elsewhere; of FSID and FileID
// the inode's number was made, and nothing else needs them.
type Attrs struct {
	Mode, Nlink, UID, GID uint32
	Size, Used            uint64
	atime, mtime, ctime   time.Duration // since 1970
	odd                   *odd          // nil: there is nothing odd
}

// odd is of devices, and of files whose ChangeID does not follow from size and times, or a time of which is centuries away. It does
// not change once it is made.
type odd struct {
	rdev   nfsclient.Device
	change nfsclient.ChangeID
	// far are atime, mtime and ctime if one of them is too far from 1970 for nanoseconds in 64 bits; nil otherwise.
	far *[3]time.Time
}

func compact(a *nfsclient.Attr) Attrs {
	k := Attrs{Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID, Size: a.Size, Used: a.Used,
		atime: since1970(a.Atime), mtime: since1970(a.Mtime), ctime: since1970(a.Ctime)}
	far := farTimes(a)
	if none := (nfsclient.Device{}); a.Rdev != none || far != nil || k.change() != a.Change {
		k.odd = &odd{a.Rdev, a.Change, far}
	}
	return k
}

// change is the ChangeID.
func (a *Attrs) change() nfsclient.ChangeID {
	if a.odd != nil {
		return a.odd.change
	}
	return nfsclient.ChangeByTimes(a.Size, timeOf(a.mtime), timeOf(a.ctime))
}

// Resize says that the file has another size, of no state that the server has shown.
func (a *Attrs) Resize(size uint64) {
	if size == a.Size {
		return
	}
	if a.odd == nil {
		a.odd = &odd{change: a.change()}
	}
	a.Size = size
}

// Full is the attributes of a file of type t, without FSID and FileID.
func (a *Attrs) Full(t nfsclient.FileType) nfsclient.Attr {
	full := nfsclient.Attr{Type: t, Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID, Size: a.Size, Used: a.Used,
		Atime: timeOf(a.atime), Mtime: timeOf(a.mtime), Ctime: timeOf(a.ctime), Change: a.change()}
	if a.odd != nil {
		full.Rdev = a.odd.rdev
		if far := a.odd.far; far != nil {
			full.Atime, full.Mtime, full.Ctime = far[0], far[1], far[2]
		}
	}
	return full
}

// farTimes are the times of a, if since1970 cannot hold them all.
func farTimes(a *nfsclient.Attr) *[3]time.Time {
	if near(a.Atime) && near(a.Mtime) && near(a.Ctime) {
		return nil
	}
	return &[3]time.Time{a.Atime, a.Mtime, a.Ctime}
}

// near reports whether since1970 can hold t, from 1678 to 2262, or t is none.
func near(t time.Time) bool { return t.IsZero() || timeOf(since1970(t)).Equal(t) }

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func timeOf(t time.Duration) time.Time { return time.Unix(0, int64(t)) }
