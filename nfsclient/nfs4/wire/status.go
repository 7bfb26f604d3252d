package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Status is nfsstat4. Up to 10008 the values are those of nfsclient; those above are
// defined here.
type Status = nfsclient.Status

const (
	OK       = nfsclient.OK
	ErrDelay = nfsclient.ErrJukebox
)

// Statuses of RFC 8881 section 15.1, RFC 7862 section 11 and RFC 8276 section 8.4.3 that
// have no equal in NFSv3.
const (
	ErrSame                  Status = 10009
	ErrDenied                Status = 10010
	ErrExpired               Status = 10011
	ErrLocked                Status = 10012
	ErrGrace                 Status = 10013
	ErrFHExpired             Status = 10014
	ErrShareDenied           Status = 10015
	ErrWrongSec              Status = 10016
	ErrClientIDInUse         Status = 10017
	ErrResource              Status = 10018
	ErrMoved                 Status = 10019
	ErrNoFileHandle          Status = 10020
	ErrMinorVersMismatch     Status = 10021
	ErrStaleClientID         Status = 10022
	ErrStaleStateid          Status = 10023
	ErrOldStateid            Status = 10024
	ErrBadStateid            Status = 10025
	ErrBadSeqid              Status = 10026
	ErrNotSame               Status = 10027
	ErrLockRange             Status = 10028
	ErrSymlink               Status = 10029
	ErrRestoreFH             Status = 10030
	ErrLeaseMoved            Status = 10031
	ErrAttrNotSupp           Status = 10032
	ErrNoGrace               Status = 10033
	ErrReclaimBad            Status = 10034
	ErrReclaimConflict       Status = 10035
	ErrBadXDR                Status = 10036
	ErrLocksHeld             Status = 10037
	ErrOpenMode              Status = 10038
	ErrBadOwner              Status = 10039
	ErrBadChar               Status = 10040
	ErrBadName               Status = 10041
	ErrBadRange              Status = 10042
	ErrLockNotSupp           Status = 10043
	ErrOpIllegal             Status = 10044
	ErrDeadlock              Status = 10045
	ErrFileOpen              Status = 10046
	ErrAdminRevoked          Status = 10047
	ErrCBPathDown            Status = 10048
	ErrBadIOMode             Status = 10049
	ErrBadLayout             Status = 10050
	ErrBadSessionDigest      Status = 10051
	ErrBadSession            Status = 10052
	ErrBadSlot               Status = 10053
	ErrCompleteAlready       Status = 10054
	ErrConnNotBoundToSession Status = 10055
	ErrDelegAlreadyWanted    Status = 10056
	ErrBackChanBusy          Status = 10057
	ErrLayoutTryLater        Status = 10058
	ErrLayoutUnavailable     Status = 10059
	ErrNoMatchingLayout      Status = 10060
	ErrRecallConflict        Status = 10061
	ErrUnknownLayoutType     Status = 10062
	ErrSeqMisordered         Status = 10063
	ErrSequencePos           Status = 10064
	ErrReqTooBig             Status = 10065
	ErrRepTooBig             Status = 10066
	ErrRepTooBigToCache      Status = 10067
	ErrRetryUncachedRep      Status = 10068
	ErrUnsafeCompound        Status = 10069
	ErrTooManyOps            Status = 10070
	ErrOpNotInSession        Status = 10071
	ErrHashAlgUnsupp         Status = 10072
	ErrClientIDBusy          Status = 10074
	ErrPNFSIOHole            Status = 10075
	ErrSeqFalseRetry         Status = 10076
	ErrBadHighSlot           Status = 10077
	ErrDeadSession           Status = 10078
	ErrEncrAlgUnsupp         Status = 10079
	ErrPNFSNoLayout          Status = 10080
	ErrNotOnlyOp             Status = 10081
	ErrWrongCred             Status = 10082
	ErrWrongType             Status = 10083
	ErrDirDelegUnavail       Status = 10084
	ErrRejectDeleg           Status = 10085
	ErrReturnConflict        Status = 10086
	ErrDelegRevoked          Status = 10087
	ErrPartnerNotSupp        Status = 10088
	ErrPartnerNoAuth         Status = 10089
	ErrUnionNotSupp          Status = 10090
	ErrOffloadDenied         Status = 10091
	ErrWrongLFS              Status = 10092
	ErrBadLabel              Status = 10093
	ErrOffloadNoReqs         Status = 10094
	ErrNoXattr               Status = 10095
	ErrXattr2Big             Status = 10096
)

// StatusName is the name of a status in the RFC, such as NFS4ERR_GRACE.
func StatusName(st Status) string {
	if st == OK {
		return "NFS4_OK"
	}
	if n, ok := statusNames[st]; ok {
		return "NFS4ERR_" + n
	}
	return fmt.Sprintf("status %d", uint32(st))
}

var statusNames = map[Status]string{
	1:                        "PERM",
	2:                        "NOENT",
	5:                        "IO",
	6:                        "NXIO",
	13:                       "ACCESS",
	17:                       "EXIST",
	18:                       "XDEV",
	20:                       "NOTDIR",
	21:                       "ISDIR",
	22:                       "INVAL",
	27:                       "FBIG",
	28:                       "NOSPC",
	30:                       "ROFS",
	31:                       "MLINK",
	63:                       "NAMETOOLONG",
	66:                       "NOTEMPTY",
	69:                       "DQUOT",
	70:                       "STALE",
	10001:                    "BADHANDLE",
	10003:                    "BAD_COOKIE",
	10004:                    "NOTSUPP",
	10005:                    "TOOSMALL",
	10006:                    "SERVERFAULT",
	10007:                    "BADTYPE",
	10008:                    "DELAY",
	ErrSame:                  "SAME",
	ErrDenied:                "DENIED",
	ErrExpired:               "EXPIRED",
	ErrLocked:                "LOCKED",
	ErrGrace:                 "GRACE",
	ErrFHExpired:             "FHEXPIRED",
	ErrShareDenied:           "SHARE_DENIED",
	ErrWrongSec:              "WRONGSEC",
	ErrClientIDInUse:         "CLID_INUSE",
	ErrResource:              "RESOURCE",
	ErrMoved:                 "MOVED",
	ErrNoFileHandle:          "NOFILEHANDLE",
	ErrMinorVersMismatch:     "MINOR_VERS_MISMATCH",
	ErrStaleClientID:         "STALE_CLIENTID",
	ErrStaleStateid:          "STALE_STATEID",
	ErrOldStateid:            "OLD_STATEID",
	ErrBadStateid:            "BAD_STATEID",
	ErrBadSeqid:              "BAD_SEQID",
	ErrNotSame:               "NOT_SAME",
	ErrLockRange:             "LOCK_RANGE",
	ErrSymlink:               "SYMLINK",
	ErrRestoreFH:             "RESTOREFH",
	ErrLeaseMoved:            "LEASE_MOVED",
	ErrAttrNotSupp:           "ATTRNOTSUPP",
	ErrNoGrace:               "NO_GRACE",
	ErrReclaimBad:            "RECLAIM_BAD",
	ErrReclaimConflict:       "RECLAIM_CONFLICT",
	ErrBadXDR:                "BADXDR",
	ErrLocksHeld:             "LOCKS_HELD",
	ErrOpenMode:              "OPENMODE",
	ErrBadOwner:              "BADOWNER",
	ErrBadChar:               "BADCHAR",
	ErrBadName:               "BADNAME",
	ErrBadRange:              "BAD_RANGE",
	ErrLockNotSupp:           "LOCK_NOTSUPP",
	ErrOpIllegal:             "OP_ILLEGAL",
	ErrDeadlock:              "DEADLOCK",
	ErrFileOpen:              "FILE_OPEN",
	ErrAdminRevoked:          "ADMIN_REVOKED",
	ErrCBPathDown:            "CB_PATH_DOWN",
	ErrBadIOMode:             "BADIOMODE",
	ErrBadLayout:             "BADLAYOUT",
	ErrBadSessionDigest:      "BAD_SESSION_DIGEST",
	ErrBadSession:            "BADSESSION",
	ErrBadSlot:               "BADSLOT",
	ErrCompleteAlready:       "COMPLETE_ALREADY",
	ErrConnNotBoundToSession: "CONN_NOT_BOUND_TO_SESSION",
	ErrDelegAlreadyWanted:    "DELEG_ALREADY_WANTED",
	ErrBackChanBusy:          "BACK_CHAN_BUSY",
	ErrLayoutTryLater:        "LAYOUTTRYLATER",
	ErrLayoutUnavailable:     "LAYOUTUNAVAILABLE",
	ErrNoMatchingLayout:      "NOMATCHING_LAYOUT",
	ErrRecallConflict:        "RECALLCONFLICT",
	ErrUnknownLayoutType:     "UNKNOWN_LAYOUTTYPE",
	ErrSeqMisordered:         "SEQ_MISORDERED",
	ErrSequencePos:           "SEQUENCE_POS",
	ErrReqTooBig:             "REQ_TOO_BIG",
	ErrRepTooBig:             "REP_TOO_BIG",
	ErrRepTooBigToCache:      "REP_TOO_BIG_TO_CACHE",
	ErrRetryUncachedRep:      "RETRY_UNCACHED_REP",
	ErrUnsafeCompound:        "UNSAFE_COMPOUND",
	ErrTooManyOps:            "TOO_MANY_OPS",
	ErrOpNotInSession:        "OP_NOT_IN_SESSION",
	ErrHashAlgUnsupp:         "HASH_ALG_UNSUPP",
	ErrClientIDBusy:          "CLIENTID_BUSY",
	ErrPNFSIOHole:            "PNFS_IO_HOLE",
	ErrSeqFalseRetry:         "SEQ_FALSE_RETRY",
	ErrBadHighSlot:           "BAD_HIGH_SLOT",
	ErrDeadSession:           "DEADSESSION",
	ErrEncrAlgUnsupp:         "ENCR_ALG_UNSUPP",
	ErrPNFSNoLayout:          "PNFS_NO_LAYOUT",
	ErrNotOnlyOp:             "NOT_ONLY_OP",
	ErrWrongCred:             "WRONG_CRED",
	ErrWrongType:             "WRONG_TYPE",
	ErrDirDelegUnavail:       "DIRDELEG_UNAVAIL",
	ErrRejectDeleg:           "REJECT_DELEG",
	ErrReturnConflict:        "RETURNCONFLICT",
	ErrDelegRevoked:          "DELEG_REVOKED",
	ErrPartnerNotSupp:        "PARTNER_NOTSUPP",
	ErrPartnerNoAuth:         "PARTNER_NO_AUTH",
	ErrUnionNotSupp:          "UNION_NOTSUPP",
	ErrOffloadDenied:         "OFFLOAD_DENIED",
	ErrWrongLFS:              "WRONG_LFS",
	ErrBadLabel:              "BADLABEL",
	ErrOffloadNoReqs:         "OFFLOAD_NO_REQS",
	ErrNoXattr:               "NOXATTR",
	ErrXattr2Big:             "XATTR2BIG",
}
