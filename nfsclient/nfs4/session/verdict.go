package session

import "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"

// verdict is what a status of SEQUENCE calls for.
type verdict uint8

const (
	// refuse: the call fails, and what the slot stands at is found out.
	refuse verdict = iota
	// executed: the operations behind SEQUENCE were carried out, as far as they succeeded.
	executed
	// pauseSame: the same request again, after a pause.
	pauseSame
	// lowerSame: the same request again, with the lowest sa_highest_slotid.
	lowerSame
	// bindSame: the same request again, once the connection is bound.
	bindSame
	// otherSlot: a slot that the server has.
	otherSlot
	// nextSeq: the sequence ID was used; the same compound with the next one.
	nextSeq
	// lost: the session is gone.
	lost
	// confused: client and server disagree about the slot. A new session settles it.
	confused
)

// verdicts are those of section 18.46.3 of RFC 8881; statuses without one are refused.
var verdicts = map[wire.Status]verdict{
	wire.OK:                       executed,
	wire.ErrDelay:                 pauseSame,
	wire.ErrBadHighSlot:           lowerSame,
	wire.ErrConnNotBoundToSession: bindSame,
	wire.ErrBadSlot:               otherSlot,
	wire.ErrSeqFalseRetry:         nextSeq,
	wire.ErrRetryUncachedRep:      nextSeq,
	wire.ErrBadSession:            lost,
	wire.ErrDeadSession:           lost,
	wire.ErrStaleClientID:         lost,
	wire.ErrExpired:               lost,
	wire.ErrSeqMisordered:         confused,
}
