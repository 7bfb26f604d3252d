package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Attrs is what is kept of nfsclient.Attr. The type is kept elsewhere, and times
// take eight bytes.
type Attrs struct {
	Mode, Nlink, UID, GID    uint32
	Size, Used, FSID, FileID uint64
	Rdev                     nfsclient.Device
	atime, mtime, ctime      time.Duration // since 1970
	change                   nfsclient.ChangeID
}

func compact(a *nfsclient.Attr) Attrs {
	return Attrs{Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		atime: since1970(a.Atime), mtime: since1970(a.Mtime), ctime: since1970(a.Ctime), change: a.Change}
}

// Full is the attributes of a file of type t.
func (a *Attrs) Full(t nfsclient.FileType) nfsclient.Attr {
	return nfsclient.Attr{Type: t, Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		Atime: time.Unix(0, int64(a.atime)), Mtime: time.Unix(0, int64(a.mtime)), Ctime: time.Unix(0, int64(a.ctime)), Change: a.change}
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }
