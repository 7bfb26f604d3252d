package nfsd

import (
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	nfs4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/back"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// Versions is a set of versions of NFS.
type Versions uint8

const (
	V3 Versions = 1 << iota
	V41
	V42
)

// bounds is the lowest and the highest version of the program.
func (v Versions) bounds() (low, high uint32) {
	low, high = 3, 4
	if v&V3 == 0 {
		low = 4
	}
	if v&(V41|V42) == 0 {
		high = 3
	}
	return low, high
}

// ParseVersions reads a list such as 3,4.1,4.2.
func ParseVersions(list string) (v Versions, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "3":
			v |= V3
		case "4.1":
			v |= V41
		case "4.2":
			v |= V42
		default:
			return 0, fmt.Errorf("version %q: neither 3, 4.1, nor 4.2", name)
		}
	}
	return v, nil
}

// forever is a grace period that only EndGrace ends.
const forever = time.Duration(math.MaxInt64 / 2)

// messageRoom is what a call or reply may have beside the data of a READ or WRITE.
const messageRoom = 4096

// openV4 makes what answers version 4. The exports are there already.
func (s *Server) openV4() {
	grace := s.cfg.Grace
	if grace < 0 {
		grace = forever
	}
	s.back = back.New(back.Config{Sent: s.cfg.Faults.called()})
	s.state = state.New(state.Config{Lease: s.cfg.Lease, Grace: grace, MaxMessage: uint32(s.cfg.MaxIO + messageRoom),
		Delegations: s.cfg.Delegations, Callback: s.back.Tell, Ended: s.back.Ended})
	s.back.Start(s.state)
	cfg := v4.Config{
		Exports: (*namespace)(s), State: s.state, CallBack: s.back.Do, MaxIO: s.cfg.MaxIO,
		Minors:    [3]bool{1: s.cfg.Versions&V41 != 0, 2: s.cfg.Versions&V42 != 0},
		Verifier:  func() nfsclient.Verifier { return *s.verf.Load() },
		BytesRead: &s.stats.bytesRead, BytesWritten: &s.stats.bytesWritten,
	}
	if s.lossy {
		cfg.Hold = func() func() {
			s.crashMu.RLock()
			return s.crashMu.RUnlock
		}
	}
	if s.cfg.Faults != nil {
		cfg.Operation, cfg.Offload, cfg.Go = s.cfg.Faults.Operation, s.cfg.Faults.Offload, s.back.Go
	}
	s.v4 = v4.New(cfg)
}

// State is what the server remembers of the clients of version 4; nil if it does not serve that.
func (s *Server) State() *state.Machine { return s.state }

// Back makes calls on the clients of version 4; nil if the server does not serve that.
func (s *Server) Back() *back.Caller { return s.back }

// recall has what clients of version 4 have been delegated of a file recalled before version 3 does
// something with it. An error means that they have not returned it yet.
func (s *Server) recall(f file, want state.Access) error {
	if !s.cfg.Delegations || s.state == nil {
		return nil
	}
	if s.state.Conflict(nil, nfsclient.Handle(f.n.Handle()), want) != nfsclient.OK {
		return unix.EAGAIN // NFS3ERR_JUKEBOX
	}
	return nil
}

// recallName is recall of what name in dir names, if anything, before that is changed.
func (s *Server) recallName(dir file, name string) error {
	if !s.cfg.Delegations || s.state == nil {
		return nil
	}
	var self vfs.Cred
	var st vfs.Stat
	n, err := dir.e.tree.Lookup(&self, dir.n, name, &st)
	if err != nil {
		return nil // the procedure itself will say why
	}
	defer dir.e.tree.Put(n)
	return s.recall(file{dir.e, n}, state.Write)
}

// called is Faults.Callback.
func (f *Faults) called() func(nfs4.ClientID, nfs4.CBOp) {
	if f == nil {
		return nil
	}
	return f.Callback
}

// namespace is the Server as v4.Exports.
type namespace Server

// Paths implements v4.Exports.
func (n *namespace) Paths() (all []string) {
	for _, e := range n.exports {
		all = append(all, e.Path)
	}
	return all
}

// Enter implements v4.Exports.
func (n *namespace) Enter(i int) *v4.Export {
	s := (*Server)(n)
	return s.mounted(s.exports[i]).v4
}

// Of implements v4.Exports.
func (n *namespace) Of(h nfsclient.Handle) (*v4.Export, error) {
	e, err := (*Server)(n).exportOf(h)
	if err != nil {
		return nil, err
	}
	return e.v4, nil
}
