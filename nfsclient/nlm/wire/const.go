package wire

import "fmt"

// Programs and versions.
const (
	Program    = 100021
	Version    = 4
	NSMProgram = 100024
	NSMVersion = 1
)

// Procedures of NLM 4 (RFC 1813 section 6.3).
const (
	ProcNull       = 0
	ProcTest       = 1
	ProcLock       = 2
	ProcCancel     = 3
	ProcUnlock     = 4
	ProcGranted    = 5
	ProcGrantedMsg = 10
	ProcGrantedRes = 15
	ProcShare      = 20
	ProcUnshare    = 21
	ProcNMLock     = 22
	ProcFreeAll    = 23
)

// Procedures of NSM 1: those that a server calls. The others are between a lock manager
// and the status monitor of its own host.
const (
	NSMNull       = 0
	NSMNotifyProc = 6
)

// Bounds on what is taken from a peer.
const (
	// MaxCaller is LM_MAXSTRLEN, MaxNotifyName LM_MAXNAMELEN and MaxNetObj
	// MAXNETOBJ_SZ. Linux takes cookies of at most 32 bytes.
	MaxCaller     = 1024
	MaxNotifyName = 1025
	MaxNetObj     = 1024
	// MaxHandle is NFS3_FHSIZE: a handle is one of NFSv3.
	MaxHandle = 64
	// MaxMonName is SM_MAXSTRLEN.
	MaxMonName = 1024
)

// The largest results of each procedure, in bytes.
const (
	sizeNetObj   = 4 + MaxNetObj
	ResReplyMax  = sizeNetObj + 4
	TestReplyMax = ResReplyMax + 4 + 4 + sizeNetObj + 8 + 8
)

// Stat is nlm4_stats (RFC 1813 section 6.2).
type Stat uint32

const (
	Granted           Stat = 0
	Denied            Stat = 1
	DeniedNoLocks     Stat = 2
	Blocked           Stat = 3
	DeniedGracePeriod Stat = 4
	Deadlock          Stat = 5
	ReadOnlyFS        Stat = 6
	StaleHandle       Stat = 7
	TooBig            Stat = 8
	Failed            Stat = 9
)

var statNames = [...]string{
	Granted: "granted", Denied: "denied", DeniedNoLocks: "no locks", Blocked: "blocked", DeniedGracePeriod: "grace period",
	Deadlock: "deadlock", ReadOnlyFS: "read-only file system", StaleHandle: "stale file handle", TooBig: "range too large", Failed: "failed",
}

func (s Stat) String() string {
	if int64(s) < int64(len(statNames)) {
		return statNames[s]
	}
	return fmt.Sprintf("nlm4_stats %d", uint32(s))
}
