package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// CBOp is the number of an operation that a server makes on its client (RFC 8881 section 20, RFC 7862 section 16).
type CBOp uint32

const (
	OpCBGetAttr            CBOp = 3
	OpCBRecall             CBOp = 4
	OpCBLayoutRecall       CBOp = 5
	OpCBNotify             CBOp = 6
	OpCBPushDeleg          CBOp = 7
	OpCBRecallAny          CBOp = 8
	OpCBRecallableObjAvail CBOp = 9
	OpCBRecallSlot         CBOp = 10
	OpCBSequence           CBOp = 11
	OpCBWantsCancelled     CBOp = 12
	OpCBNotifyLock         CBOp = 13
	OpCBNotifyDeviceID     CBOp = 14
	OpCBOffload            CBOp = 15
	OpCBIllegal            CBOp = 10044
)

var cbNames = map[CBOp]string{
	OpCBGetAttr:            "CB_GETATTR",
	OpCBRecall:             "CB_RECALL",
	OpCBLayoutRecall:       "CB_LAYOUTRECALL",
	OpCBNotify:             "CB_NOTIFY",
	OpCBPushDeleg:          "CB_PUSH_DELEG",
	OpCBRecallAny:          "CB_RECALL_ANY",
	OpCBRecallableObjAvail: "CB_RECALLABLE_OBJ_AVAIL",
	OpCBRecallSlot:         "CB_RECALL_SLOT",
	OpCBSequence:           "CB_SEQUENCE",
	OpCBWantsCancelled:     "CB_WANTS_CANCELLED",
	OpCBNotifyLock:         "CB_NOTIFY_LOCK",
	OpCBNotifyDeviceID:     "CB_NOTIFY_DEVICEID",
	OpCBOffload:            "CB_OFFLOAD",
	OpCBIllegal:            "CB_ILLEGAL",
}

// String is the operation's name, as in the RFC.
func (o CBOp) String() string {
	if n, ok := cbNames[o]; ok {
		return n
	}
	return fmt.Sprintf("callback operation %d", uint32(o))
}

// Defined reports whether the minor version defines the operation. One that it does not is answered
// with NFS4ERR_OP_ILLEGAL.
func (o CBOp) Defined(minor uint32) bool {
	last := OpCBNotifyDeviceID
	if minor > 1 {
		last = OpCBOffload
	}
	return o >= OpCBGetAttr && o <= last
}

// CBOperation is one operation of a callback compound: its arguments and its results. The methods are
// those of Operation.
type CBOperation interface {
	Op() CBOp
	AppendArgs(w *xdr.Writer)
	ParseArgs(r *xdr.Reader)
	AppendRes(w *xdr.Writer, st Status)
	ParseRes(r *xdr.Reader, st Status)
	ReplyMax() int
}

// NewCB is an empty operation. One that the minor version, or this package, does not have is a
// CBUnknown.
func NewCB(o CBOp, minor uint32) CBOperation {
	if o.Defined(minor) {
		switch o {
		case OpCBGetAttr:
			return new(CBGetAttr)
		case OpCBRecall:
			return new(CBRecall)
		case OpCBRecallAny:
			return new(CBRecallAny)
		case OpCBRecallSlot:
			return new(CBRecallSlot)
		case OpCBSequence:
			return new(CBSequence)
		case OpCBNotifyLock:
			return new(CBNotifyLock)
		case OpCBOffload:
			return new(CBOffload)
		}
	}
	return &CBUnknown{Number: o}
}

// CBUnknown is an operation that a client does not take apart, at the end of a request that was parsed:
// as its arguments have no known length, nothing behind it can be read. It can be refused only, which
// ends the compound.
type CBUnknown struct {
	noArgs
	noRes
	Number CBOp
}

func (o *CBUnknown) Op() CBOp { return o.Number }

// ParseArgs skips what is left of the request.
func (o *CBUnknown) ParseArgs(r *xdr.Reader) { r.Fixed(r.Remaining() &^ 3) }
