package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Op is the number of an operation (RFC 8881 section 16.2, RFC 7862, RFC 8276).
type Op uint32

const (
	OpAccess            Op = 3
	OpClose             Op = 4
	OpCommit            Op = 5
	OpCreate            Op = 6
	OpDelegPurge        Op = 7
	OpDelegReturn       Op = 8
	OpGetAttr           Op = 9
	OpGetFH             Op = 10
	OpLink              Op = 11
	OpLock              Op = 12
	OpLockT             Op = 13
	OpLockU             Op = 14
	OpLookup            Op = 15
	OpLookupP           Op = 16
	OpNVerify           Op = 17
	OpOpen              Op = 18
	OpOpenDowngrade     Op = 21
	OpPutFH             Op = 22
	OpPutRootFH         Op = 24
	OpRead              Op = 25
	OpReadDir           Op = 26
	OpReadLink          Op = 27
	OpRemove            Op = 28
	OpRename            Op = 29
	OpRestoreFH         Op = 31
	OpSaveFH            Op = 32
	OpSecInfo           Op = 33
	OpSetAttr           Op = 34
	OpVerify            Op = 37
	OpWrite             Op = 38
	OpBindConnToSession Op = 41
	OpExchangeID        Op = 42
	OpCreateSession     Op = 43
	OpDestroySession    Op = 44
	OpFreeStateID       Op = 45
	OpSecInfoNoName     Op = 52
	OpSequence          Op = 53
	OpTestStateID       Op = 55
	OpDestroyClientID   Op = 57
	OpReclaimComplete   Op = 58
	OpAllocate          Op = 59
	OpCopy              Op = 60
	OpDeallocate        Op = 62
	OpOffloadCancel     Op = 66
	OpOffloadStatus     Op = 67
	OpSeek              Op = 69
	OpClone             Op = 71
	OpGetXattr          Op = 72
	OpSetXattr          Op = 73
	OpListXattrs        Op = 74
	OpRemoveXattr       Op = 75
	OpIllegal           Op = 10044
)

// Operation is one operation of a compound: its arguments and its results.
type Operation interface {
	Op() Op
	// AppendArgs and ParseArgs are the arguments that follow the operation's number.
	AppendArgs(w *xdr.Writer)
	ParseArgs(r *xdr.Reader)
	// AppendRes and ParseRes are the results that follow resop and status; st is the
	// operation's own status.
	AppendRes(w *xdr.Writer, st Status)
	ParseRes(r *xdr.Reader, st Status)
	// ReplyMax bounds resop, status and results, in bytes, for what the arguments ask.
	// The data of a Bulk is not counted, but its length word is.
	ReplyMax() int
}

// known is one operation that this package has.
type known struct {
	name  string
	minor uint32 // the first minor version that has it
	make  func() Operation
}

func op[T any, P interface {
	*T
	Operation
}](name string, minor uint32) known {
	return known{name, minor, func() Operation { return P(new(T)) }}
}

var operations = [...]known{
	OpAccess:            op[Access]("ACCESS", 1),
	OpClose:             op[Close]("CLOSE", 1),
	OpCommit:            op[Commit]("COMMIT", 1),
	OpCreate:            op[Create]("CREATE", 1),
	OpDelegReturn:       op[DelegReturn]("DELEGRETURN", 1),
	OpGetAttr:           op[GetAttr]("GETATTR", 1),
	OpGetFH:             op[GetFH]("GETFH", 1),
	OpLink:              op[Link]("LINK", 1),
	OpLock:              op[Lock]("LOCK", 1),
	OpLockT:             op[LockT]("LOCKT", 1),
	OpLockU:             op[LockU]("LOCKU", 1),
	OpLookup:            op[Lookup]("LOOKUP", 1),
	OpLookupP:           op[LookupP]("LOOKUPP", 1),
	OpNVerify:           op[NVerify]("NVERIFY", 1),
	OpOpen:              op[Open]("OPEN", 1),
	OpOpenDowngrade:     op[OpenDowngrade]("OPEN_DOWNGRADE", 1),
	OpPutFH:             op[PutFH]("PUTFH", 1),
	OpPutRootFH:         op[PutRootFH]("PUTROOTFH", 1),
	OpRead:              op[Read]("READ", 1),
	OpReadDir:           op[ReadDir]("READDIR", 1),
	OpReadLink:          op[ReadLink]("READLINK", 1),
	OpRemove:            op[Remove]("REMOVE", 1),
	OpRename:            op[Rename]("RENAME", 1),
	OpRestoreFH:         op[RestoreFH]("RESTOREFH", 1),
	OpSaveFH:            op[SaveFH]("SAVEFH", 1),
	OpSecInfo:           op[SecInfo]("SECINFO", 1),
	OpSetAttr:           op[SetAttr]("SETATTR", 1),
	OpVerify:            op[Verify]("VERIFY", 1),
	OpWrite:             op[Write]("WRITE", 1),
	OpBindConnToSession: op[BindConnToSession]("BIND_CONN_TO_SESSION", 1),
	OpExchangeID:        op[ExchangeID]("EXCHANGE_ID", 1),
	OpCreateSession:     op[CreateSession]("CREATE_SESSION", 1),
	OpDestroySession:    op[DestroySession]("DESTROY_SESSION", 1),
	OpFreeStateID:       op[FreeStateID]("FREE_STATEID", 1),
	OpSecInfoNoName:     op[SecInfoNoName]("SECINFO_NO_NAME", 1),
	OpSequence:          op[Sequence]("SEQUENCE", 1),
	OpTestStateID:       op[TestStateID]("TEST_STATEID", 1),
	OpDestroyClientID:   op[DestroyClientID]("DESTROY_CLIENTID", 1),
	OpReclaimComplete:   op[ReclaimComplete]("RECLAIM_COMPLETE", 1),
	OpAllocate:          op[Allocate]("ALLOCATE", 2),
	OpCopy:              op[Copy]("COPY", 2),
	OpDeallocate:        op[Deallocate]("DEALLOCATE", 2),
	OpOffloadCancel:     op[OffloadCancel]("OFFLOAD_CANCEL", 2),
	OpOffloadStatus:     op[OffloadStatus]("OFFLOAD_STATUS", 2),
	OpSeek:              op[Seek]("SEEK", 2),
	OpClone:             op[Clone]("CLONE", 2),
	OpGetXattr:          op[GetXattr]("GETXATTR", 2),
	OpSetXattr:          op[SetXattr]("SETXATTR", 2),
	OpListXattrs:        op[ListXattrs]("LISTXATTRS", 2),
	OpRemoveXattr:       op[RemoveXattr]("REMOVEXATTR", 2),
}

// String is the operation's name, as in the RFC.
func (o Op) String() string {
	if int64(o) < int64(len(operations)) && operations[o].make != nil {
		return operations[o].name
	}
	return fmt.Sprintf("operation %d", uint32(o))
}

// Minor is the first minor version that has the operation, 0 if this package has it not.
func (o Op) Minor() uint32 {
	if int64(o) < int64(len(operations)) {
		return operations[o].minor
	}
	return 0
}

// New is an empty operation. One that the minor version, or this package, does not have
// is an Unknown.
func New(o Op, minor uint32) Operation {
	if m := o.Minor(); m == 0 || m > minor {
		return &Unknown{Number: o}
	}
	return operations[o].make()
}

// noArgs is the arguments of operations that have none.
type noArgs struct{}

func (noArgs) AppendArgs(*xdr.Writer) {}
func (noArgs) ParseArgs(*xdr.Reader)  {}

// noRes is the results of operations that answer with a status alone.
type noRes struct{}

func (noRes) AppendRes(*xdr.Writer, Status) {}
func (noRes) ParseRes(*xdr.Reader, Status)  {}
func (noRes) ReplyMax() int                 { return sizeOp }

// Unknown is an operation that is not known, at the end of a request that was parsed: as
// its arguments have no known length, nothing behind it can be read. A server answers
// it with NFS4ERR_OP_ILLEGAL if no minor version defines it, and with NFS4ERR_NOTSUPP else.
type Unknown struct {
	noRes
	Number Op
}

func (o *Unknown) Op() Op { return o.Number }

// Defined reports whether the minor version defines the operation.
func (o *Unknown) Defined(minor uint32) bool {
	last := Op(58)
	if minor > 1 {
		last = 75
	}
	return o.Number >= 3 && o.Number <= last
}

func (o *Unknown) AppendArgs(*xdr.Writer) {}

// ParseArgs skips what is left of the request.
func (o *Unknown) ParseArgs(r *xdr.Reader) { r.Fixed(r.Remaining() &^ 3) }
