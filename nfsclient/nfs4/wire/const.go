package wire

// The program and its procedures (RFC 8881 section 16).
const (
	Program      = 100003
	Version      = 4
	ProcNull     = 0
	ProcCompound = 1
	// CallbackVersion is the version of the callback program. RFC 8881 section 18.36.3
	// says 4, the XDR and every implementation 1.
	CallbackVersion = 1
	// CallbackProgram is the number that the XDR gives the callback program. A client may choose
	// another, in CREATE_SESSION.
	CallbackProgram = 0x40000000
	ProcCBNull      = 0
	ProcCBCompound  = 1
)

// Bounds on what is taken from a peer.
const (
	// MaxHandle is NFS4_FHSIZE.
	MaxHandle = 128
	// MaxName bounds a component of a path. The protocol sets none; file systems stop
	// at 255. Longer names are let through so that a server can answer
	// NFS4ERR_NAMETOOLONG instead of refusing the message.
	MaxName = 1024
	// MaxPath bounds the target of a symbolic link.
	MaxPath = 4096
	// MaxData bounds the data of one READ or WRITE. Data is borrowed, never
	// allocated, so this need only be above what anyone sends.
	MaxData = 64 << 20
	// MaxOpaque is NFS4_OPAQUE_LIMIT: owners of clients, opens and locks, server scopes.
	MaxOpaque = 1024
	// MaxOwner bounds the name of a user or group. The protocol sets none; Linux
	// stops at 128.
	MaxOwner = 256
	// MaxTag bounds the tag of a compound. It is the only bound on that of a request;
	// that of a reply is no longer than the request's.
	MaxTag = 1024
	// MaxOps bounds the operations of a compound. Servers stop at far fewer.
	MaxOps = 128
	// MaxXattr bounds the value of an extended attribute, and ListXattrs.MaxCount has
	// no bound but the message's. Linux stops at this size.
	MaxXattr = 64 << 10
	// MaxStateids bounds the list of TEST_STATEID.
	MaxStateids = 1024
	// MaxACL bounds an access control list, encoded, in bytes.
	MaxACL = 32 << 10
	// MaxFSLocations bounds fs_locations, encoded, in bytes.
	MaxFSLocations = 16 << 10
	// MaxFlavors bounds the list of SECINFO, MaxOID each OID in it.
	MaxFlavors = 64
	MaxOID     = 64
	// MaxBitmap bounds the words of a bitmap. Those behind BitmapWords are not kept.
	MaxBitmap = 8
	// MaxLayoutTypes bounds fs_layout_types.
	MaxLayoutTypes = 16
	// MaxServers bounds the source servers of COPY, MaxNetID and MaxUniversalAddr the
	// parts of an address.
	MaxServers       = 16
	MaxNetID         = 32
	MaxUniversalAddr = 256
	// MaxSecParms bounds the list of CREATE_SESSION, MaxGIDs and MaxMachine the
	// AUTH_SYS credential in it (RFC 5531).
	MaxSecParms = 8
	MaxGIDs     = 16
	MaxMachine  = 255
	// MaxGSSHandle bounds a handle of RPCSEC_GSS.
	MaxGSSHandle = 512
	// MaxReferring bounds the lists of referring calls in CB_SEQUENCE, and each of them.
	MaxReferring = 1024
)

// Sizes of encoded parts, in bytes.
const (
	sizeOp         = 4 + 4 // resop and status
	sizeStateid    = 16
	sizeSession    = 16
	sizeVerf       = 8
	sizeChange     = 4 + 8 + 8
	sizeTime       = 8 + 4
	sizeHandle     = 4 + MaxHandle
	sizeOwner      = 4 + MaxOwner
	sizeBitmap     = 4 + 4*MaxBitmap
	sizeOpaque     = 4 + MaxOpaque
	sizeACE        = 3*4 + sizeOwner
	sizeDelegation = 4 + sizeStateid + 4 + 12 + sizeACE
	sizeDenied     = 8 + 8 + 4 + 8 + sizeOpaque
	sizeImplID     = 4 + 2*sizeOpaque + sizeTime
	sizeChannel    = 6*4 + 4 + 4
	sizeProtect    = 4 + 2*sizeBitmap
)

// padded is the size of n bytes of counted opaque data.
func padded(n int) int { return 4 + (n+3)&^3 }
