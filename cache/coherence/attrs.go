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

// odd is of devices, and of files whose ChangeID does not follow from size and times. It does
// not change once it is made.
type odd struct {
	rdev   nfsclient.Device
	change nfsclient.ChangeID
}

func compact(a *nfsclient.Attr) Attrs {
	k := Attrs{Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID, Size: a.Size, Used: a.Used,
		atime: since1970(a.Atime), mtime: since1970(a.Mtime), ctime: since1970(a.Ctime)}
	if none := (nfsclient.Device{}); a.Rdev != none || k.change() != a.Change {
		k.odd = &odd{a.Rdev, a.Change}
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
	}
	return full
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func timeOf(t time.Duration) time.Time { return time.Unix(0, int64(t)) }
