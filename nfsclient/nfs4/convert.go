package nfs4

import (
	"math/bits"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// modeBits are the bits of a mode that are not a file's type.
const modeBits = 0o7777

// statAttrs are the attributes that nfsclient.Attr is made of.
var statAttrs = wire.BitmapOf(wire.AttrType, wire.AttrChange, wire.AttrSize, wire.AttrFSID, wire.AttrFileID, wire.AttrMode,
	wire.AttrNumLinks, wire.AttrOwner, wire.AttrOwnerGroup, wire.AttrRawDev, wire.AttrSpaceUsed, wire.AttrTimeAccess,
	wire.AttrTimeMetadata, wire.AttrTimeModify)

// neededAttrs are those of statAttrs that every server must send (RFC 8881 section 5.6), or without
// which a file cannot be shown.
var neededAttrs = wire.BitmapOf(wire.AttrType, wire.AttrChange, wire.AttrSize, wire.AttrFSID)

// fsid is the one number for both of a file system's.
func fsid(f wire.FSID) uint64 { return f.Major ^ bits.RotateLeft64(f.Minor, 32) }

// toAttr is what a server said of a file; ok is false if it left out what cannot be done without.
func (c *Client) toAttr(w *wire.Attrs) (a nfsclient.Attr, ok bool) {
	if !neededAttrs.Without(w.Mask).Empty() || w.Type == 0 || w.Type > nfsclient.FIFO {
		return a, false
	}
	a = nfsclient.Attr{Type: w.Type, Size: w.Size, FSID: fsid(w.FSID), Nlink: 1, UID: nobody, GID: nobody,
		Change: nfsclient.ChangeByAttribute(w.Change)}
	switch {
	case w.Has(wire.AttrFileID):
		a.FileID = w.FileID
	case w.Has(wire.AttrMountedOnFileID):
		a.FileID = w.MountedOnFileID
	}
	if w.Has(wire.AttrMode) {
		a.Mode = w.Mode & modeBits
	}
	if w.Has(wire.AttrNumLinks) {
		a.Nlink = w.NumLinks
	}
	if w.Has(wire.AttrOwner) {
		a.UID = c.owners.uid(w.Owner)
	}
	if w.Has(wire.AttrOwnerGroup) {
		a.GID = c.owners.gid(w.OwnerGroup)
	}
	if w.Has(wire.AttrRawDev) && (a.Type == nfsclient.BlockDevice || a.Type == nfsclient.CharDevice) {
		a.Rdev = w.RawDev
	}
	if w.Has(wire.AttrSpaceUsed) {
		a.Used = w.SpaceUsed
	}
	if w.Has(wire.AttrTimeMetadata) {
		a.Ctime = w.TimeMetadata.Time()
	}
	a.Atime, a.Mtime = a.Ctime, a.Ctime
	if w.Has(wire.AttrTimeAccess) {
		a.Atime = w.TimeAccess.Time()
	}
	if w.Has(wire.AttrTimeModify) {
		a.Mtime = w.TimeModify.Time()
	}
	return a, true
}

// attrOf is the result of operation i, a GETATTR; nil where it was not carried out.
func (c *Client) attrOf(q *request, i int) *nfsclient.Attr {
	if a, ok := c.postOf(q, i); ok {
		return &a
	}
	return nil
}

func (c *Client) postOf(q *request, i int) (a nfsclient.Attr, ok bool) {
	if !q.has(i) {
		return a, false
	}
	g, _ := q.Ops[i].(*wire.GetAttr)
	return c.toAttr(&g.Attrs)
}

// dirWcc is what an operation has changed in a directory, whose attributes GETATTR i brought. If
// they are not of the state that the operation has left, someone else has changed it since.
func (c *Client) dirWcc(q *request, info wire.ChangeInfo, i int) (w nfsclient.Wcc) {
	a, ok := c.postOf(q, i)
	if ok {
		w.After = nfsclient.PostAttr{Set: true, Attr: a}
	}
	if info.Atomic && ok && a.Change == nfsclient.ChangeByAttribute(info.After) {
		w.Before = nfsclient.PreChange{Set: true, ID: nfsclient.ChangeByAttribute(info.Before)}
	}
	return w
}

// toMake is the attributes of a file that is made with s. A mode and a umask are one attribute (RFC 8275), which only
// what makes a file takes, and only if it is among may.
func (c *Client) toMake(s *nfsclient.SetAttr, may wire.Bitmap, names bool) (w wire.Attrs) {
	w = c.toSet(s, names)
	switch {
	case s.Mode == nil || s.Umask&0o777 == 0:
	case may.Has(wire.AttrModeUmask):
		w.Mask.Remove(wire.AttrMode)
		w.Mask.Add(wire.AttrModeUmask)
		w.ModeUmask = wire.ModeUmask{Mode: *s.Mode & modeBits, Umask: s.Umask & 0o777}
	default:
		w.Mode &^= s.Umask & 0o777
	}
	return w
}

// toSet is the attributes that s sets, with owners as names or as numbers.
func (c *Client) toSet(s *nfsclient.SetAttr, names bool) (w wire.Attrs) {
	if s.Size != nil {
		w.Mask.Add(wire.AttrSize)
		w.Size = *s.Size
	}
	if s.Mode != nil {
		w.Mask.Add(wire.AttrMode)
		w.Mode = *s.Mode & modeBits
	}
	if s.UID != nil {
		w.Mask.Add(wire.AttrOwner)
		w.Owner = c.owners.ofUser(*s.UID, names)
	}
	if s.GID != nil {
		w.Mask.Add(wire.AttrOwnerGroup)
		w.OwnerGroup = c.owners.ofGroup(*s.GID, names)
	}
	if s.SetAtime != nfsclient.TimeKeep {
		w.Mask.Add(wire.AttrTimeAccessSet)
		w.TimeAccessSet = wire.SetTime{How: s.SetAtime, Time: wire.TimeOf(s.Atime)}
	}
	if s.SetMtime != nfsclient.TimeKeep {
		w.Mask.Add(wire.AttrTimeModifySet)
		w.TimeModifySet = wire.SetTime{How: s.SetMtime, Time: wire.TimeOf(s.Mtime)}
	}
	return w
}
