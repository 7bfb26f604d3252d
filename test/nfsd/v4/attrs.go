package v4

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// The attributes that there are in minor version 1, and those that 2 adds.
var (
	attrs1 = wire.BitmapOf(wire.AttrSupportedAttrs, wire.AttrType, wire.AttrFHExpireType, wire.AttrChange, wire.AttrSize, wire.AttrLinkSupport,
		wire.AttrSymlinkSupport, wire.AttrNamedAttr, wire.AttrFSID, wire.AttrUniqueHandles, wire.AttrLeaseTime, wire.AttrRdattrError,
		wire.AttrCanSetTime, wire.AttrCaseInsensitive, wire.AttrCasePreserving, wire.AttrChownRestricted, wire.AttrFilehandle, wire.AttrFileID,
		wire.AttrFilesAvail, wire.AttrFilesFree, wire.AttrFilesTotal, wire.AttrHomogeneous, wire.AttrMaxFileSize, wire.AttrMaxLink, wire.AttrMaxName,
		wire.AttrMaxRead, wire.AttrMaxWrite, wire.AttrMode, wire.AttrNoTrunc, wire.AttrNumLinks, wire.AttrOwner, wire.AttrOwnerGroup, wire.AttrRawDev,
		wire.AttrSpaceAvail, wire.AttrSpaceFree, wire.AttrSpaceTotal, wire.AttrSpaceUsed, wire.AttrTimeAccess, wire.AttrTimeAccessSet, wire.AttrTimeCreate,
		wire.AttrTimeDelta, wire.AttrTimeMetadata, wire.AttrTimeModify, wire.AttrTimeModifySet, wire.AttrMountedOnFileID, wire.AttrSuppAttrExclCreate)
	attrs2 = wire.BitmapOf(wire.AttrCloneBlockSize, wire.AttrChangeAttrType, wire.AttrModeUmask, wire.AttrXattrSupport)

	// setOnly can be set and not be asked for.
	setOnly = wire.BitmapOf(wire.AttrTimeAccessSet, wire.AttrTimeModifySet, wire.AttrModeUmask)
	// settable can be set.
	settable = setOnly.Or(wire.BitmapOf(wire.AttrSize, wire.AttrMode, wire.AttrOwner, wire.AttrOwnerGroup))
	// exclusive can be set by an exclusive OPEN, which keeps its verifier in the times.
	exclusive = settable.Without(wire.BitmapOf(wire.AttrTimeAccessSet, wire.AttrTimeModifySet))

	spaceAttrs = wire.BitmapOf(wire.AttrFilesAvail, wire.AttrFilesFree, wire.AttrFilesTotal, wire.AttrSpaceAvail, wire.AttrSpaceFree,
		wire.AttrSpaceTotal, wire.AttrMaxName)
)

func supported(minor uint32) wire.Bitmap {
	if minor < 2 {
		return attrs1
	}
	return attrs1.Or(attrs2)
}

const (
	// linkMax is what ext4 allows; the kernel does not tell it of other file systems, which
	// refuse for themselves.
	linkMax = 65000
	// changeUndefined is NFS4_CHANGE_TYPE_IS_UNDEFINED: nothing follows from which of two
	// change attributes is larger.
	changeUndefined = 4
	pseudoMode      = 0o555
	dirSize         = 4096
)

// attrsOf fills in the attributes of o that want has, of those that there are.
func (c *call) attrsOf(o object, want wire.Bitmap, a *wire.Attrs) wire.Status {
	*a = wire.Attrs{Mask: want.And(supported(c.comp.Minor)).Without(setOnly)}
	if o.gone != "" {
		return nfsclient.ErrStale
	}
	c.common(a)
	if o.dir != nil {
		c.pseudoAttrs(o.dir, a)
		return wire.OK
	}
	var st vfs.Stat
	if err := o.ex.Tree.Stat(o.node, &st); err != nil {
		return statusOf(err)
	}
	return c.fileAttrs(o, &st, a)
}

// common fills in what is the same everywhere.
func (c *call) common(a *wire.Attrs) {
	a.SupportedAttrs = supported(c.comp.Minor)
	a.LinkSupport, a.SymlinkSupport, a.UniqueHandles = true, true, true
	a.LeaseTime = uint32(c.s.cfg.State.Lease().Seconds())
	a.CanSetTime, a.CasePreserving, a.ChownRestricted, a.Homogeneous, a.NoTrunc = true, true, true, true, true
	a.MaxFileSize, a.MaxLink, a.MaxName = vfs.MaxFileSize, linkMax, maxName
	a.MaxRead, a.MaxWrite = uint64(c.s.cfg.MaxIO), uint64(c.s.cfg.MaxIO)
	a.TimeDelta = wire.Time{Nsec: 1}
	a.SuppAttrExclCreate = exclusive.And(supported(c.comp.Minor))
	a.ChangeAttrType, a.XattrSupport = changeUndefined, true
}

// pseudoAttrs fills in the attributes of a directory of the pseudo file system.
func (c *call) pseudoAttrs(d *dir, a *wire.Attrs) {
	made := c.s.ns.made
	t := wire.TimeOf(made)
	a.Type, a.Mode, a.NumLinks = nfsclient.Directory, pseudoMode, uint32(2+len(d.children))
	a.Change, a.Size = uint64(made.UnixNano()), dirSize
	a.FileID, a.MountedOnFileID = d.fileid, d.fileid
	a.Filehandle = d.handle()
	a.Owner, a.OwnerGroup = "0", "0"
	a.TimeAccess, a.TimeModify, a.TimeMetadata, a.TimeCreate = t, t, t, t
	a.XattrSupport = false
}

// fileAttrs fills in the attributes of a file of an export, whose status is st.
func (c *call) fileAttrs(o object, st *vfs.Stat, a *wire.Attrs) wire.Status {
	ex := o.ex
	a.Type, a.Mode, a.NumLinks = TypeOf(st.Mode), uint32(st.Mode)&0o7777, st.Nlink
	a.Change, a.Size, a.SpaceUsed = st.ChangeID(), st.Size, st.Blocks*512
	a.FSID = wire.FSID{Major: ex.FSID}
	a.FileID, a.MountedOnFileID = st.Ino, st.Ino
	a.RawDev = nfsclient.Device{Major: st.Rdev_major, Minor: st.Rdev_minor}
	if a.Has(wire.AttrOwner) {
		a.Owner = strconv.FormatUint(uint64(st.Uid), 10)
	}
	if a.Has(wire.AttrOwnerGroup) {
		a.OwnerGroup = strconv.FormatUint(uint64(st.Gid), 10)
	}
	a.TimeAccess, a.TimeModify, a.TimeMetadata = ex.timeOf(st.Atime), ex.timeOf(st.Mtime), ex.timeOf(st.Ctime)
	a.TimeCreate = a.TimeMetadata
	if st.Mask&unix.STATX_BTIME != 0 {
		a.TimeCreate = ex.timeOf(st.Btime)
	}
	a.CloneBlockSize = st.Blksize
	if o.node != nil {
		a.Filehandle = o.handle()
		if d := c.s.ns.place(o); d != nil && d != c.s.ns.root {
			a.MountedOnFileID = c.s.ns.mountedOn(d)
		}
	}
	if !a.Mask.And(spaceAttrs).Empty() {
		return c.spaceAttrs(o, a)
	}
	return wire.OK
}

// spaceAttrs fills in what the file system says of itself.
func (c *call) spaceAttrs(o object, a *wire.Attrs) wire.Status {
	n := o.node
	if n == nil {
		n = o.ex.Tree.Root()
	}
	var fs unix.Statfs_t
	if err := o.ex.Tree.StatFS(n, &fs); err != nil {
		return statusOf(err)
	}
	unit := uint64(fs.Frsize)
	if unit == 0 {
		unit = uint64(fs.Bsize)
	}
	a.SpaceTotal, a.SpaceFree, a.SpaceAvail = fs.Blocks*unit, fs.Bfree*unit, fs.Bavail*unit
	a.FilesTotal, a.FilesFree, a.FilesAvail = fs.Files, fs.Ffree, fs.Ffree
	a.MaxName = uint32(min(fs.Namelen, maxName))
	return wire.OK
}

func (e *Export) timeOf(t unix.StatxTimestamp) wire.Time {
	return wire.Time{Sec: t.Sec + e.ClockAhead, Nsec: t.Nsec}
}

// TypeOf is the type of a file that a mode has.
func TypeOf(mode uint16) nfsclient.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nfsclient.Directory
	case unix.S_IFBLK:
		return nfsclient.BlockDevice
	case unix.S_IFCHR:
		return nfsclient.CharDevice
	case unix.S_IFLNK:
		return nfsclient.SymbolicLink
	case unix.S_IFSOCK:
		return nfsclient.Socket
	case unix.S_IFIFO:
		return nfsclient.FIFO
	}
	return nfsclient.Regular
}

// getAttr is GETATTR (RFC 8881 section 18.7).
func (c *call) getAttr(a *wire.GetAttr) wire.Status {
	if !a.Want.And(setOnly).Empty() {
		return nfsclient.ErrInval
	}
	size, known, st := c.delegated(c.cur, a.Want)
	if st != wire.OK {
		return st
	}
	st = c.attrsOf(c.cur, a.Want, &a.Attrs)
	if known {
		a.Attrs.Size = size
	}
	return st
}

// delegated asks the holder of a write delegation for what only it knows: the size, and whether it has changed
// the file, which then gets another change attribute (RFC 8881 section 10.4.3). One who does not answer is to
// return the delegation. known is false if there is no such holder.
func (c *call) delegated(o object, want wire.Bitmap) (size uint64, known bool, st wire.Status) {
	if o.node == nil || !o.node.IsRegular() || !want.Has(wire.AttrSize) && !want.Has(wire.AttrChange) {
		return 0, false, wire.OK
	}
	d, ok := c.s.cfg.State.WriteDelegation(c.ses, o.handle())
	if !ok {
		return 0, false, wire.OK
	}
	ask := &wire.CBGetAttr{Handle: d.File, Want: wire.BitmapOf(wire.AttrChange, wire.AttrSize)}
	st, err := c.s.cfg.CallBack(c.ctx, d.Client, ask)
	if err != nil || st != wire.OK || ask.Attrs.Mask != ask.Want {
		return 0, false, c.conflict(o, readData)
	}
	if ask.Attrs.Change != d.Change || ask.Attrs.Size != d.Size {
		o.node.Changed()
	}
	return ask.Attrs.Size, true, wire.OK
}

// verify is VERIFY and NVERIFY (sections 18.31 and 18.15).
func (c *call) verify(a *wire.Attrs, same, other wire.Status) wire.Status {
	if a.Err != nil || !a.Mask.Without(supported(c.comp.Minor)).Empty() {
		return wire.ErrAttrNotSupp
	}
	if a.Has(wire.AttrRdattrError) || !a.Mask.And(setOnly).Empty() {
		return nfsclient.ErrInval
	}
	var now wire.GetAttr
	if st := c.attrsOf(c.cur, a.Mask, &now.Attrs); st != wire.OK {
		return st
	}
	then := wire.GetAttr{Attrs: *a}
	if string(encoded(&now)) == string(encoded(&then)) {
		return same
	}
	return other
}
