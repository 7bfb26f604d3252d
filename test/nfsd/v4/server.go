package v4

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// Export is a tree that is served.
type Export struct {
	// Path is where it stands, absolute and clean.
	Path string
	Tree *vfs.Tree
	FSID uint64
	// ClockAhead is by how many seconds the clock that clients see is ahead.
	ClockAhead int64
	// Flavors are those of security that its files may be reached by, as MOUNT numbers them (RFC 2623
	// section 2.2.1), preferred ones first; Allows says whether a call is secured by one.
	Flavors []uint32
	Allows  func(*transport.Request) bool
	// Cred is the user that a call acts for. Groups are borrowed from the call.
	Cred func(*transport.Request) vfs.Cred
}

// Exports are the trees that are served.
type Exports interface {
	// Paths are those of the exports, in an order that does not change.
	Paths() []string
	// Enter is the export that a client finds at Paths()[i].
	Enter(i int) *Export
	// Of is the export that a handle belongs to.
	Of(h nfsclient.Handle) (*Export, error)
}

// Config is what a Server needs.
type Config struct {
	Exports Exports
	State   *state.Machine
	// Minors are the minor versions served, 1 and 2, by number.
	Minors [3]bool
	// MaxIO bounds one READ or WRITE, in bytes.
	MaxIO int
	// Verifier is that of WRITE, COMMIT and COPY.
	Verifier func() nfsclient.Verifier
	// Hold keeps a crash away while something is written, until release. It may be nil.
	Hold func() (release func())
	// Operation, when not nil, is asked before each operation is carried out, in the order of the
	// COMPOUND: a status that is not OK is the operation's, in place of its results.
	Operation func(ctx context.Context, op wire.Operation) wire.Status
	// CallBack makes a callback of one operation.
	CallBack func(ctx context.Context, client wire.ClientID, op wire.CBOperation) (wire.Status, error)
	// Offload, when not nil, says whether a COPY that may go on after its answer does. Go then has
	// a function run, and reports false if it does not.
	Offload func() bool
	Go      func(f func(ctx context.Context)) bool
	// BytesRead and BytesWritten are counted up.
	BytesRead, BytesWritten *atomic.Uint64
}

// Server answers COMPOUNDs. Its methods may be called from any goroutine.
type Server struct {
	cfg  Config
	ns   *namespace
	seed maphash.Seed
	ops  [numOps]atomic.Uint64
}

// numOps is one more than the largest number of an operation.
const numOps = int(wire.OpRemoveXattr) + 1

// New is a server. Nothing is to be closed.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, ns: newNamespace(cfg.Exports), seed: maphash.MakeSeed()}
}

// Counts is how often each operation was asked for, by name.
func (s *Server) Counts() map[string]uint64 {
	m := map[string]uint64{}
	for i := range s.ops {
		if n := s.ops[i].Load(); n > 0 {
			m[wire.Op(i).String()] = n
		}
	}
	return m
}

// Serve answers a call of version 4. replayed: the reply is the session's copy.
func (s *Server) Serve(ctx context.Context, q *transport.Request) (stat transport.AcceptStat, replayed bool) {
	switch q.Proc {
	case wire.ProcNull:
		return transport.Success, false
	case wire.ProcCompound:
		return s.compound(ctx, q)
	}
	return transport.ProcUnavail, false
}

// peer is who sent q.
func peer(q *transport.Request, minor uint32) state.Peer {
	p := state.Peer{Principal: "none", Conn: q.Back, Minor: minor}
	if q.Flavor == transport.FlavorSys {
		p.Principal = "sys:" + strconv.FormatUint(uint64(q.Sys.UID), 10)
	}
	return p
}
