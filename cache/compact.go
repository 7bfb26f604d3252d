package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// attrs is what an inode keeps of nfsclient.Attr. The type is the inode's own,
// and times take eight bytes.
type attrs struct {
	Mode, Nlink, UID, GID    uint32
	Size, Used, FSID, FileID uint64
	Rdev                     nfsclient.Device
	atime, mtime, ctime      time.Duration // since the epoch
	change                   nfsclient.ChangeID
}

func compact(a *nfsclient.Attr) attrs {
	return attrs{Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		atime: since1970(a.Atime), mtime: since1970(a.Mtime), ctime: since1970(a.Ctime), change: a.Change}
}

// full is what compact was given.
func (a *attrs) full(t nfsclient.FileType) nfsclient.Attr {
	return nfsclient.Attr{Type: t, Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		Atime: time.Unix(0, int64(a.atime)), Mtime: time.Unix(0, int64(a.mtime)), Ctime: time.Unix(0, int64(a.ctime)), Change: a.change}
}
