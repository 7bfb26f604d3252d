package nfsd

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// attr makes a fattr3 of what the kernel says. Every file of an export has its
// fsid, whatever devices the file system is made of.
func (e *export) attr(a *wire.Attr, st *vfs.Stat) {
	*a = wire.Attr{
		Type: v4.TypeOf(st.Mode), Mode: uint32(st.Mode) & 0o7777, Nlink: st.Nlink, UID: st.Uid, GID: st.Gid,
		Size: st.Size, Used: st.Blocks * 512, Rdev: nfsclient.Device{Major: st.Rdev_major, Minor: st.Rdev_minor},
		FSID: e.fsid, FileID: st.Ino, Atime: e.timeOf(st.Atime), Mtime: e.timeOf(st.Mtime), Ctime: e.timeOf(st.Ctime),
	}
}

func (e *export) timeOf(t unix.StatxTimestamp) wire.Time {
	return wire.Time{Sec: uint32(t.Sec + e.ClockAhead), Nsec: t.Nsec}
}

// post fills attributes in, if there are any.
func (e *export) post(p *wire.PostAttr, st *vfs.Stat) {
	if e != nil && st.Mask != 0 {
		p.Set = true
		e.attr(&p.Attr, st)
	}
}

func (e *export) wcc(w *wire.Wcc, ch *vfs.Change) {
	if b := &ch.Before; b.Mask != 0 {
		w.Before = wire.PreAttr{Set: true, Size: b.Size, Mtime: e.timeOf(b.Mtime), Ctime: e.timeOf(b.Ctime)}
	}
	e.post(&w.After, &ch.After)
}

// setAttr makes an order to vfs of a sattr3.
func (e *export) setAttr(a *wire.SetAttr) (s vfs.SetAttr, err error) {
	if a.Mode.Set {
		s.Set, s.Mode = s.Set|vfs.SetMode, a.Mode.V
	}
	if a.UID.Set {
		s.Set, s.UID = s.Set|vfs.SetUID, a.UID.V
	}
	if a.GID.Set {
		s.Set, s.GID = s.Set|vfs.SetGID, a.GID.V
	}
	if a.Size.Set {
		s.Set, s.Size = s.Set|vfs.SetSize, a.Size.V
	}
	if s.Atime, err = e.newTime(a.Atime); err == nil {
		s.Mtime, err = e.newTime(a.Mtime)
	}
	return s, err
}

func (e *export) newTime(t wire.SetTime) (vfs.NewTime, error) {
	switch t.How {
	case nfsclient.TimeServer:
		return vfs.NewTime{How: vfs.TimeNow}, nil
	case nfsclient.TimeClient:
		if t.T.Nsec >= 1e9 {
			return vfs.NewTime{}, unix.EINVAL
		}
		return vfs.NewTime{How: vfs.TimeSet, Sec: int64(t.T.Sec) - e.ClockAhead, Nsec: int64(t.T.Nsec)}, nil
	}
	return vfs.NewTime{}, nil
}

// cred is the user that a call acts for on e. Groups are borrowed from q.
func (e *export) cred(q *transport.Request) vfs.Cred {
	c := &q.Sys
	if q.Flavor != transport.FlavorSys || e.Squash == SquashAll {
		return vfs.Cred{UID: e.anonUID, GID: e.anonGID}
	}
	out := vfs.Cred{UID: c.UID, GID: c.GID, GIDs: c.GIDs}
	if e.Squash != SquashRoot {
		return out
	}
	if out.UID == 0 {
		out.UID = e.anonUID
	}
	if out.GID == 0 {
		out.GID = e.anonGID
	}
	for i, g := range out.GIDs {
		if g != 0 {
			continue
		}
		out.GIDs = append([]uint32(nil), out.GIDs...)
		for j := i; j < len(out.GIDs); j++ {
			if out.GIDs[j] == 0 {
				out.GIDs[j] = e.anonGID
			}
		}
		break
	}
	return out
}
