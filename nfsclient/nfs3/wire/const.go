package wire

// Programs and versions (RFC 1813 sections 3 and 5, RFC 1833).
const (
	NFSProgram     = 100003
	NFSVersion     = 3
	MountProgram   = 100005
	MountVersion   = 3
	RpcbindProgram = 100000
	PortmapVersion = 2
	RpcbindV3      = 3
	RpcbindV4      = 4
	RpcbindPort    = 111
)

// Procedures of NFSv3 (RFC 1813 section 3.3).
const (
	ProcNull        = 0
	ProcGetAttr     = 1
	ProcSetAttr     = 2
	ProcLookup      = 3
	ProcAccess      = 4
	ProcReadLink    = 5
	ProcRead        = 6
	ProcWrite       = 7
	ProcCreate      = 8
	ProcMkdir       = 9
	ProcSymlink     = 10
	ProcMknod       = 11
	ProcRemove      = 12
	ProcRmdir       = 13
	ProcRename      = 14
	ProcLink        = 15
	ProcReadDir     = 16
	ProcReadDirPlus = 17
	ProcFSStat      = 18
	ProcFSInfo      = 19
	ProcPathConf    = 20
	ProcCommit      = 21
)

// Procedures of MOUNT (RFC 1813 section 5.2).
const (
	MountNull    = 0
	MountMnt     = 1
	MountDump    = 2
	MountUmnt    = 3
	MountUmntAll = 4
	MountExport  = 5
)

// Procedures of the port mapper and of rpcbind (RFC 1833).
const (
	PortmapNull    = 0
	PortmapGetPort = 3
	RpcbindSet     = 1
	RpcbindUnset   = 2
	RpcbindGetAddr = 3
	RpcbindDump    = 4
)

// Bounds on what is taken from a peer.
const (
	// MaxHandle is NFS3_FHSIZE and FHSIZE3.
	MaxHandle = 64
	// MaxName bounds a file name. The protocol sets none; file systems stop at
	// 255. Longer names are let through so that a server can answer
	// NFS3ERR_NAMETOOLONG instead of refusing the message.
	MaxName = 1024
	// MaxPath bounds the target of a symbolic link.
	MaxPath = 4096
	// MaxData bounds the data of one READ or WRITE. Data is borrowed, never
	// allocated, so this need only be above what anyone sends.
	MaxData = 64 << 20
	// MaxMountPath and MaxMountName are MNTPATHLEN and MNTNAMLEN.
	MaxMountPath = 1024
	MaxMountName = 255
	// MaxFlavors bounds the list of authentication flavors of an export.
	MaxFlavors = 256
	// MaxNetID, MaxUniversalAddr and MaxOwner bound the strings of rpcbind.
	MaxNetID         = 32
	MaxUniversalAddr = 256
	MaxOwner         = 256
	// MaxRegistrations bounds the list of all that rpcbind knows.
	MaxRegistrations = 4096
)

// Sizes of encoded parts, in bytes (RFC 1813 section 2.6).
const (
	sizeAttr      = 5*4 + 7*8 + 8 // type…gid, five 64-bit numbers and rdev, three times
	sizePostAttr  = 4 + sizeAttr
	sizeWcc       = 4 + 3*8 + sizePostAttr
	sizeHandle    = 4 + MaxHandle
	sizePostFH    = 4 + sizeHandle
	sizeVerf      = 8
	sizeStatus    = 4
	sizeMadeReply = sizeStatus + sizePostFH + sizePostAttr + sizeWcc
)

// The largest results of each procedure, in bytes, without the data of a Bulk
// but with its length word: what transport.Call.ReplyMax asks for. Each is its
// larger arm.
const (
	NullReplyMax     = 0
	GetAttrReplyMax  = sizeStatus + sizeAttr
	SetAttrReplyMax  = sizeStatus + sizeWcc
	LookupReplyMax   = sizeStatus + sizeHandle + 2*sizePostAttr
	AccessReplyMax   = sizeStatus + sizePostAttr + 4
	ReadLinkReplyMax = sizeStatus + sizePostAttr + 4
	ReadReplyMax     = sizeStatus + sizePostAttr + 4 + 4 + 4 // count, eof, length
	WriteReplyMax    = sizeStatus + sizeWcc + 4 + 4 + sizeVerf
	CreateReplyMax   = sizeMadeReply
	MkdirReplyMax    = sizeMadeReply
	SymlinkReplyMax  = sizeMadeReply
	MknodReplyMax    = sizeMadeReply
	RemoveReplyMax   = sizeStatus + sizeWcc
	RmdirReplyMax    = sizeStatus + sizeWcc
	RenameReplyMax   = sizeStatus + 2*sizeWcc
	LinkReplyMax     = sizeStatus + sizePostAttr + sizeWcc
	FSStatReplyMax   = sizeStatus + sizePostAttr + 6*8 + 4
	FSInfoReplyMax   = sizeStatus + sizePostAttr + 7*4 + 8 + 8 + 4
	PathConfReplyMax = sizeStatus + sizePostAttr + 6*4
	CommitReplyMax   = sizeStatus + sizeWcc + sizeVerf

	MountMntReplyMax = sizeStatus + sizeHandle + 4 + 4*MaxFlavors
	// MountListReplyMax bounds the results of DUMP and EXPORT, for which the
	// protocol has no bound.
	MountListReplyMax = 1 << 20

	GetPortReplyMax = 4
	GetAddrReplyMax = 4 + MaxUniversalAddr
	SetReplyMax     = 4
	// RpcbindDumpReplyMax is above what any server sends.
	RpcbindDumpReplyMax = 1 << 20

	// ReadDirOverhead is what the results of READDIR and READDIRPLUS hold
	// besides entries: status, attributes, verifier, and the two words that
	// end the list.
	ReadDirOverhead = sizeStatus + sizePostAttr + sizeVerf + 4 + 4
)

// ReadDirReplyMax bounds the results of a READDIR or READDIRPLUS that allows
// count bytes. By the RFC count covers all but the status; servers that hold
// it to cover the entries alone are allowed for.
func ReadDirReplyMax(count uint32) int { return int(count) + ReadDirOverhead }
