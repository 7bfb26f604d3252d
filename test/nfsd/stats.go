package nfsd

import (
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

// Stats is a snapshot of what a server did.
type Stats struct {
	// Calls counts all that came, Procs those of NFS by procedure, but for
	// those that never came, and GETACL and SETACL of NFSACL.
	Calls uint64            `json:"calls"`
	Procs map[string]uint64 `json:"procs"`
	// Operations counts those of COMPOUNDs by name.
	Operations map[string]uint64 `json:"operations,omitempty"`
	// Locks counts the calls of NLM by procedure, likewise.
	Locks map[string]uint64 `json:"locks,omitempty"`
	// Duplicates counts calls answered from, or waiting in, the duplicate
	// request cache.
	Duplicates   uint64 `json:"duplicates"`
	BytesRead    uint64 `json:"bytesRead"`
	BytesWritten uint64 `json:"bytesWritten"`
	// Mounts counts the calls of MNT.
	Mounts uint64 `json:"mounts"`
	// Crashes counts those that were simulated.
	Crashes uint64 `json:"crashes"`
	// RDMA is of each RDMA listener in the order of their making.
	RDMA []rpcrdma.ServerStats `json:"rdma,omitempty"`
}

type counters struct {
	calls, duplicates, crashes, mounts atomic.Uint64
	bytesRead, bytesWritten            atomic.Uint64
	getACL, setACL                     atomic.Uint64
	proc                               [len(procNames)]atomic.Uint64
	lock                               [len(lockProcNames)]atomic.Uint64
}

var lockProcNames = [...]string{
	nlm.ProcNull: "NULL", nlm.ProcTest: "TEST", nlm.ProcLock: "LOCK", nlm.ProcCancel: "CANCEL", nlm.ProcUnlock: "UNLOCK",
	nlm.ProcGranted: "GRANTED", nlm.ProcGrantedMsg: "GRANTED_MSG", nlm.ProcGrantedRes: "GRANTED_RES",
}

var procNames = [...]string{
	wire.ProcNull: "NULL", wire.ProcGetAttr: "GETATTR", wire.ProcSetAttr: "SETATTR", wire.ProcLookup: "LOOKUP",
	wire.ProcAccess: "ACCESS", wire.ProcReadLink: "READLINK", wire.ProcRead: "READ", wire.ProcWrite: "WRITE",
	wire.ProcCreate: "CREATE", wire.ProcMkdir: "MKDIR", wire.ProcSymlink: "SYMLINK", wire.ProcMknod: "MKNOD",
	wire.ProcRemove: "REMOVE", wire.ProcRmdir: "RMDIR", wire.ProcRename: "RENAME", wire.ProcLink: "LINK",
	wire.ProcReadDir: "READDIR", wire.ProcReadDirPlus: "READDIRPLUS", wire.ProcFSStat: "FSSTAT",
	wire.ProcFSInfo: "FSINFO", wire.ProcPathConf: "PATHCONF", wire.ProcCommit: "COMMIT",
}

// Stats is a snapshot of the counters since New.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Calls: c.calls.Load(), Procs: map[string]uint64{}, Duplicates: c.duplicates.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(), Crashes: c.crashes.Load(), Mounts: c.mounts.Load(),
	}
	for i := range c.proc {
		if n := c.proc[i].Load(); n > 0 {
			st.Procs[procNames[i]] = n
		}
	}
	for name, n := range map[string]uint64{"GETACL": c.getACL.Load(), "SETACL": c.setACL.Load()} {
		if n > 0 {
			st.Procs[name] = n
		}
	}
	for i := range c.lock {
		if n := c.lock[i].Load(); n > 0 {
			if st.Locks == nil {
				st.Locks = map[string]uint64{}
			}
			st.Locks[lockProcNames[i]] = n
		}
	}
	if s.v4 != nil {
		st.Operations = s.v4.Counts()
	}
	for _, l := range s.all() {
		if l.stats != nil {
			st.RDMA = append(st.RDMA, l.stats())
		}
	}
	return st
}
