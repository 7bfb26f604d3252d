package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// appendOne appends one attribute's value; false if this package does not have it.
func (a *Attrs) appendOne(w *xdr.Writer, n AttrNum) bool {
	switch n {
	case AttrSupportedAttrs:
		a.SupportedAttrs.append(w)
	case AttrType:
		w.Uint32(uint32(a.Type))
	case AttrFHExpireType:
		w.Uint32(a.FHExpireType)
	case AttrChange:
		w.Uint64(a.Change)
	case AttrSize:
		w.Uint64(a.Size)
	case AttrLinkSupport:
		w.Bool(a.LinkSupport)
	case AttrSymlinkSupport:
		w.Bool(a.SymlinkSupport)
	case AttrNamedAttr:
		w.Bool(a.NamedAttr)
	case AttrFSID:
		w.Uint64(a.FSID.Major)
		w.Uint64(a.FSID.Minor)
	case AttrUniqueHandles:
		w.Bool(a.UniqueHandles)
	case AttrLeaseTime:
		w.Uint32(a.LeaseTime)
	case AttrRdattrError:
		w.Uint32(uint32(a.RdattrError))
	case AttrACL:
		AppendACL(w, a.ACL)
	case AttrACLSupport:
		w.Uint32(a.ACLSupport)
	case AttrCanSetTime:
		w.Bool(a.CanSetTime)
	case AttrCaseInsensitive:
		w.Bool(a.CaseInsensitive)
	case AttrCasePreserving:
		w.Bool(a.CasePreserving)
	case AttrChownRestricted:
		w.Bool(a.ChownRestricted)
	case AttrFilehandle:
		appendHandle(w, a.Filehandle)
	case AttrFileID:
		w.Uint64(a.FileID)
	case AttrFilesAvail:
		w.Uint64(a.FilesAvail)
	case AttrFilesFree:
		w.Uint64(a.FilesFree)
	case AttrFilesTotal:
		w.Uint64(a.FilesTotal)
	case AttrFSLocations:
		a.FSLocations.append(w)
	case AttrHomogeneous:
		w.Bool(a.Homogeneous)
	case AttrMaxFileSize:
		w.Uint64(a.MaxFileSize)
	case AttrMaxLink:
		w.Uint32(a.MaxLink)
	case AttrMaxName:
		w.Uint32(a.MaxName)
	case AttrMaxRead:
		w.Uint64(a.MaxRead)
	case AttrMaxWrite:
		w.Uint64(a.MaxWrite)
	case AttrMode:
		w.Uint32(a.Mode)
	case AttrNoTrunc:
		w.Bool(a.NoTrunc)
	case AttrNumLinks:
		w.Uint32(a.NumLinks)
	case AttrOwner:
		w.String(a.Owner)
	case AttrOwnerGroup:
		w.String(a.OwnerGroup)
	case AttrRawDev:
		w.Uint32(a.RawDev.Major)
		w.Uint32(a.RawDev.Minor)
	case AttrSpaceAvail:
		w.Uint64(a.SpaceAvail)
	case AttrSpaceFree:
		w.Uint64(a.SpaceFree)
	case AttrSpaceTotal:
		w.Uint64(a.SpaceTotal)
	case AttrSpaceUsed:
		w.Uint64(a.SpaceUsed)
	case AttrTimeAccess:
		a.TimeAccess.append(w)
	case AttrTimeAccessSet:
		a.TimeAccessSet.append(w)
	case AttrTimeCreate:
		a.TimeCreate.append(w)
	case AttrTimeDelta:
		a.TimeDelta.append(w)
	case AttrTimeMetadata:
		a.TimeMetadata.append(w)
	case AttrTimeModify:
		a.TimeModify.append(w)
	case AttrTimeModifySet:
		a.TimeModifySet.append(w)
	case AttrMountedOnFileID:
		w.Uint64(a.MountedOnFileID)
	case AttrFSLayoutTypes:
		w.Uint32(uint32(len(a.FSLayoutTypes)))
		for _, v := range a.FSLayoutTypes {
			w.Uint32(v)
		}
	case AttrLayoutBlockSize:
		w.Uint32(a.LayoutBlockSize)
	case AttrSuppAttrExclCreate:
		a.SuppAttrExclCreate.append(w)
	case AttrCloneBlockSize:
		w.Uint32(a.CloneBlockSize)
	case AttrChangeAttrType:
		w.Uint32(a.ChangeAttrType)
	case AttrModeUmask:
		w.Uint32(a.ModeUmask.Mode)
		w.Uint32(a.ModeUmask.Umask)
	case AttrXattrSupport:
		w.Bool(a.XattrSupport)
	default:
		return false
	}
	return true
}

// parseOne reads one attribute's value; false if this package does not have it.
func (a *Attrs) parseOne(r *xdr.Reader, n AttrNum) bool {
	switch n {
	case AttrSupportedAttrs:
		a.SupportedAttrs.parse(r)
	case AttrType:
		a.Type = parseType(r)
	case AttrFHExpireType:
		a.FHExpireType = r.Uint32()
	case AttrChange:
		a.Change = r.Uint64()
	case AttrSize:
		a.Size = r.Uint64()
	case AttrLinkSupport:
		a.LinkSupport = r.Bool()
	case AttrSymlinkSupport:
		a.SymlinkSupport = r.Bool()
	case AttrNamedAttr:
		a.NamedAttr = r.Bool()
	case AttrFSID:
		a.FSID = FSID{r.Uint64(), r.Uint64()}
	case AttrUniqueHandles:
		a.UniqueHandles = r.Bool()
	case AttrLeaseTime:
		a.LeaseTime = r.Uint32()
	case AttrRdattrError:
		a.RdattrError = Status(r.Uint32())
	case AttrACL:
		a.ACL = ParseACL(r)
	case AttrACLSupport:
		a.ACLSupport = r.Uint32()
	case AttrCanSetTime:
		a.CanSetTime = r.Bool()
	case AttrCaseInsensitive:
		a.CaseInsensitive = r.Bool()
	case AttrCasePreserving:
		a.CasePreserving = r.Bool()
	case AttrChownRestricted:
		a.ChownRestricted = r.Bool()
	case AttrFilehandle:
		parseHandle(r, &a.Filehandle)
	case AttrFileID:
		a.FileID = r.Uint64()
	case AttrFilesAvail:
		a.FilesAvail = r.Uint64()
	case AttrFilesFree:
		a.FilesFree = r.Uint64()
	case AttrFilesTotal:
		a.FilesTotal = r.Uint64()
	case AttrFSLocations:
		a.FSLocations = new(FSLocations)
		a.FSLocations.parse(r)
	case AttrHomogeneous:
		a.Homogeneous = r.Bool()
	case AttrMaxFileSize:
		a.MaxFileSize = r.Uint64()
	case AttrMaxLink:
		a.MaxLink = r.Uint32()
	case AttrMaxName:
		a.MaxName = r.Uint32()
	case AttrMaxRead:
		a.MaxRead = r.Uint64()
	case AttrMaxWrite:
		a.MaxWrite = r.Uint64()
	case AttrMode:
		a.Mode = r.Uint32()
	case AttrNoTrunc:
		a.NoTrunc = r.Bool()
	case AttrNumLinks:
		a.NumLinks = r.Uint32()
	case AttrOwner:
		parseString(r, &a.Owner, MaxOwner)
	case AttrOwnerGroup:
		parseString(r, &a.OwnerGroup, MaxOwner)
	case AttrRawDev:
		a.RawDev = nfsclient.Device{Major: r.Uint32(), Minor: r.Uint32()}
	case AttrSpaceAvail:
		a.SpaceAvail = r.Uint64()
	case AttrSpaceFree:
		a.SpaceFree = r.Uint64()
	case AttrSpaceTotal:
		a.SpaceTotal = r.Uint64()
	case AttrSpaceUsed:
		a.SpaceUsed = r.Uint64()
	case AttrTimeAccess:
		a.TimeAccess.parse(r)
	case AttrTimeAccessSet:
		a.TimeAccessSet.parse(r)
	case AttrTimeCreate:
		a.TimeCreate.parse(r)
	case AttrTimeDelta:
		a.TimeDelta.parse(r)
	case AttrTimeMetadata:
		a.TimeMetadata.parse(r)
	case AttrTimeModify:
		a.TimeModify.parse(r)
	case AttrTimeModifySet:
		a.TimeModifySet.parse(r)
	case AttrMountedOnFileID:
		a.MountedOnFileID = r.Uint64()
	case AttrFSLayoutTypes:
		a.FSLayoutTypes = a.FSLayoutTypes[:0]
		for n := r.Count(MaxLayoutTypes); n > 0; n-- {
			a.FSLayoutTypes = append(a.FSLayoutTypes, r.Uint32())
		}
	case AttrLayoutBlockSize:
		a.LayoutBlockSize = r.Uint32()
	case AttrSuppAttrExclCreate:
		a.SuppAttrExclCreate.parse(r)
	case AttrCloneBlockSize:
		a.CloneBlockSize = r.Uint32()
	case AttrChangeAttrType:
		a.ChangeAttrType = r.Uint32()
	case AttrModeUmask:
		a.ModeUmask = ModeUmask{r.Uint32(), r.Uint32()}
	case AttrXattrSupport:
		a.XattrSupport = r.Bool()
	default:
		return false
	}
	return true
}

// typeNamedAttr is NF4NAMEDATTR, the last of nfs_ftype4: nfsclient has the first seven.
const typeNamedAttr = 9

func parseType(r *xdr.Reader) nfsclient.FileType {
	return nfsclient.FileType(parseEnum(r, "file type", uint32(nfsclient.Regular), typeNamedAttr))
}
