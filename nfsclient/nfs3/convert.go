package nfs3

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// modeBits are the bits of a mode that are not a file's type.
const modeBits = 0o7777

func toAttr(a *wire.Attr) nfsclient.Attr {
	return nfsclient.Attr{Type: a.Type, Mode: a.Mode & modeBits, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, Rdev: a.Rdev, FSID: a.FSID, FileID: a.FileID,
		Atime: a.Atime.Time(), Mtime: a.Mtime.Time(), Ctime: a.Ctime.Time(),
		Change: nfsclient.ChangeByTimes(a.Size, a.Mtime.Time(), a.Ctime.Time())}
}

// toPost is nil where the server left the attributes out.
func toPost(p *wire.PostAttr) *nfsclient.Attr {
	if !p.Set {
		return nil
	}
	a := toAttr(&p.Attr)
	return &a
}

// toResult is toPost for what stands in a result.
func toResult(p *wire.PostAttr) (a nfsclient.PostAttr) {
	if p.Set {
		a.Set, a.Attr = true, toAttr(&p.Attr)
	}
	return a
}

func toWcc(c *wire.Wcc) nfsclient.Wcc {
	w := nfsclient.Wcc{After: toResult(&c.After)}
	if c.Before.Set {
		w.Before.Set = true
		w.Before.ID = nfsclient.ChangeByTimes(c.Before.Size, c.Before.Mtime.Time(), c.Before.Ctime.Time())
	}
	return w
}

func fromSetAttr(s *nfsclient.SetAttr) wire.SetAttr {
	w := wire.SetAttr{UID: opt(s.UID), GID: opt(s.GID), Mode: opt(s.Mode),
		Atime: wire.SetTime{How: s.SetAtime}, Mtime: wire.SetTime{How: s.SetMtime}}
	w.Mode.V &= modeBits
	if s.Size != nil {
		w.Size = wire.OptUint64{Set: true, V: *s.Size}
	}
	if s.SetAtime == nfsclient.TimeClient {
		w.Atime.T = wire.TimeOf(s.Atime)
	}
	if s.SetMtime == nfsclient.TimeClient {
		w.Mtime.T = wire.TimeOf(s.Mtime)
	}
	return w
}

func opt(v *uint32) wire.OptUint32 {
	if v == nil {
		return wire.OptUint32{}
	}
	return wire.OptUint32{Set: true, V: *v}
}
