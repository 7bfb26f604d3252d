package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// attrs is what an inode keeps of nfsclient.Attr. The type is the inode's own,
// and times that are not reckoned with take eight bytes.
type attrs struct {
	Mode, Nlink, UID, GID    uint32
	Size, Used, FSID, FileID uint64
	Rdev                     nfsclient.Device
	atime, mtime             time.Duration // since the epoch
	Ctime                    time.Time
}

func compact(a *nfsclient.Attr) attrs {
	return attrs{Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		atime: since1970(a.Atime), mtime: since1970(a.Mtime), Ctime: a.Ctime}
}

// full is what compact was given.
func (a *attrs) full(t nfsclient.FileType) nfsclient.Attr {
	return nfsclient.Attr{Type: t, Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FSID: a.FSID, FileID: a.FileID, Rdev: a.Rdev,
		Atime: time.Unix(0, int64(a.atime)), Mtime: time.Unix(0, int64(a.mtime)), Ctime: a.Ctime}
}

func (a *attrs) state() state { return state{a.Size, a.mtime, since1970(a.Ctime)} }
