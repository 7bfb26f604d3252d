package wire

// AttrNum is the number of an attribute (RFC 8881 section 5, RFC 7862, RFC 8275,
// RFC 8276).
type AttrNum uint32

const (
	AttrSupportedAttrs     AttrNum = 0
	AttrType               AttrNum = 1
	AttrFHExpireType       AttrNum = 2
	AttrChange             AttrNum = 3
	AttrSize               AttrNum = 4
	AttrLinkSupport        AttrNum = 5
	AttrSymlinkSupport     AttrNum = 6
	AttrNamedAttr          AttrNum = 7
	AttrFSID               AttrNum = 8
	AttrUniqueHandles      AttrNum = 9
	AttrLeaseTime          AttrNum = 10
	AttrRdattrError        AttrNum = 11
	AttrACL                AttrNum = 12
	AttrACLSupport         AttrNum = 13
	AttrCanSetTime         AttrNum = 15
	AttrCaseInsensitive    AttrNum = 16
	AttrCasePreserving     AttrNum = 17
	AttrChownRestricted    AttrNum = 18
	AttrFilehandle         AttrNum = 19
	AttrFileID             AttrNum = 20
	AttrFilesAvail         AttrNum = 21
	AttrFilesFree          AttrNum = 22
	AttrFilesTotal         AttrNum = 23
	AttrFSLocations        AttrNum = 24
	AttrHomogeneous        AttrNum = 26
	AttrMaxFileSize        AttrNum = 27
	AttrMaxLink            AttrNum = 28
	AttrMaxName            AttrNum = 29
	AttrMaxRead            AttrNum = 30
	AttrMaxWrite           AttrNum = 31
	AttrMode               AttrNum = 33
	AttrNoTrunc            AttrNum = 34
	AttrNumLinks           AttrNum = 35
	AttrOwner              AttrNum = 36
	AttrOwnerGroup         AttrNum = 37
	AttrRawDev             AttrNum = 41
	AttrSpaceAvail         AttrNum = 42
	AttrSpaceFree          AttrNum = 43
	AttrSpaceTotal         AttrNum = 44
	AttrSpaceUsed          AttrNum = 45
	AttrTimeAccess         AttrNum = 47
	AttrTimeAccessSet      AttrNum = 48
	AttrTimeCreate         AttrNum = 50
	AttrTimeDelta          AttrNum = 51
	AttrTimeMetadata       AttrNum = 52
	AttrTimeModify         AttrNum = 53
	AttrTimeModifySet      AttrNum = 54
	AttrMountedOnFileID    AttrNum = 55
	AttrFSLayoutTypes      AttrNum = 62
	AttrLayoutBlockSize    AttrNum = 65
	AttrSuppAttrExclCreate AttrNum = 75
	AttrCloneBlockSize     AttrNum = 77
	AttrChangeAttrType     AttrNum = 79
	AttrModeUmask          AttrNum = 81
	AttrXattrSupport       AttrNum = 82
)

// attrSizes is the largest size of each attribute that this package has, in bytes.
var attrSizes = [...]int{
	AttrSupportedAttrs: sizeBitmap, AttrType: 4, AttrFHExpireType: 4, AttrChange: 8, AttrSize: 8,
	AttrLinkSupport: 4, AttrSymlinkSupport: 4, AttrNamedAttr: 4, AttrFSID: 16, AttrUniqueHandles: 4,
	AttrLeaseTime: 4, AttrRdattrError: 4, AttrACL: MaxACL, AttrACLSupport: 4, AttrCanSetTime: 4, AttrCaseInsensitive: 4,
	AttrCasePreserving: 4, AttrChownRestricted: 4, AttrFilehandle: sizeHandle, AttrFileID: 8,
	AttrFilesAvail: 8, AttrFilesFree: 8, AttrFilesTotal: 8, AttrFSLocations: MaxFSLocations,
	AttrHomogeneous: 4, AttrMaxFileSize: 8, AttrMaxLink: 4, AttrMaxName: 4, AttrMaxRead: 8,
	AttrMaxWrite: 8, AttrMode: 4, AttrNoTrunc: 4, AttrNumLinks: 4, AttrOwner: sizeOwner,
	AttrOwnerGroup: sizeOwner, AttrRawDev: 8, AttrSpaceAvail: 8, AttrSpaceFree: 8, AttrSpaceTotal: 8,
	AttrSpaceUsed: 8, AttrTimeAccess: sizeTime, AttrTimeAccessSet: 4 + sizeTime, AttrTimeCreate: sizeTime,
	AttrTimeDelta: sizeTime, AttrTimeMetadata: sizeTime, AttrTimeModify: sizeTime,
	AttrTimeModifySet: 4 + sizeTime, AttrMountedOnFileID: 8, AttrFSLayoutTypes: 4 + 4*MaxLayoutTypes,
	AttrLayoutBlockSize: 4, AttrSuppAttrExclCreate: sizeBitmap, AttrCloneBlockSize: 4,
	AttrChangeAttrType: 4, AttrModeUmask: 8, AttrXattrSupport: 4,
}

// maxAttrs bounds the values of an attribute list, in bytes: all attributes that this
// package has at once, and as much again for others.
const maxAttrs = 64 << 10

// attrsMax bounds an encoded fattr4 of the attributes that mask asks for. Those that
// this package does not have are not counted.
func attrsMax(mask Bitmap) int {
	n := sizeBitmap + 4
	mask.each(func(a AttrNum) bool {
		if int(a) < len(attrSizes) {
			n += attrSizes[a]
		}
		return true
	})
	return n
}
