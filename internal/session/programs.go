package session

import (
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nfs4wire "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	nlmwire "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport/account"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// The programs that help NFS: MOUNT (RFC 1813 appendix I) and rpcbind (RFC 1833).
const (
	mountProgram   = 100005
	rpcbindProgram = 100000
)

// programs are those that a session calls, their procedures named as /proc/self/mountstats names them.
func programs(o *options.Options) []account.Program {
	if o.Minors() != nil {
		return programs4
	}
	return programs3
}

// programs4 are those of NFS version 4. It has one procedure for all, whose calls are counted by the operation that
// each is made for.
var programs4 = []account.Program{
	{Number: wire.NFSProgram, Name: "NFS", Procedures: operations()},
	rpcbindProcedures,
}

// operations are the names of what calls of NFS version 4 are counted as.
func operations() []string {
	names := nfs4wire.Names()
	names[nfs4wire.ProcNull], names[nfs4wire.ProcCompound] = "NULL", "COMPOUND"
	return names
}

var rpcbindProcedures = account.Program{Number: rpcbindProgram, Name: "RPCBIND", Procedures: []string{"NULL", "SET", "UNSET", "GETADDR", "DUMP"}}

var programs3 = []account.Program{
	{Number: wire.NFSProgram, Name: "NFS", Procedures: []string{
		"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
		"REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"}},
	{Number: wire.ACLProgram, Name: "NFSACL", Procedures: []string{"NULL", "GETACL", "SETACL"}},
	{Number: mountProgram, Name: "MOUNT", Procedures: []string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"}},
	{Number: nlmwire.Program, Name: "NLM", Procedures: []string{
		"NULL", "TEST", "LOCK", "CANCEL", "UNLOCK", "GRANTED", 10: "GRANTED_MSG", 15: "GRANTED_RES",
		20: "SHARE", "UNSHARE", "NM_LOCK", "FREE_ALL"}},
	rpcbindProcedures,
}

// Procedures is what the session's calls have cost so far, of procedures that were called.
func (s *Session) Procedures() []account.Procedure { return s.cfg.account.Procedures() }

// Health is what is known of the server.
func (s *Session) Health() reconnect.Health { return s.caller.Health() }

// ProcedureName names a procedure of those programs.
func (s *Session) ProcedureName(prog, proc uint32) string {
	program, procedure := s.cfg.account.Name(prog, proc)
	return program + " " + procedure
}
