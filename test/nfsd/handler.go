package nfsd

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nfs4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// handler is the Server as transports see it.
type handler Server

// Serve answers a call of any program that is served here.
func (h *handler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	s := (*Server)(h)
	s.stats.calls.Add(1)
	if q.Flavor == transport.FlavorGSS {
		s.identify(q)
	}
	if s.cfg.Faults == nil {
		stat, _ := s.dispatch(ctx, q)
		return stat
	}
	e := Event{Transport: q.Transport, Peer: q.Peer, XID: q.XID, Prog: q.Prog, Vers: q.Vers, Proc: q.Proc}
	if f := s.cfg.Faults.Before; f != nil {
		if lost := s.applyFault(ctx, f(ctx, e)); lost {
			return transport.NoReply
		}
	}
	stat, replayed := s.dispatch(ctx, q)
	if f := s.cfg.Faults.After; f != nil {
		e.Replayed = replayed
		if lost := s.applyFault(ctx, f(ctx, e)); lost {
			return transport.NoReply
		}
	}
	return stat
}

// applyFault carries out a fault and reports whether the call is lost by it.
func (s *Server) applyFault(ctx context.Context, a Action) bool {
	switch a {
	case Drop:
		return true
	case Hang:
		<-ctx.Done()
		return true
	case Crash:
		s.lose()
		s.Cut()
		return true
	}
	return false
}

// Cut ends every connection, and listens again. It does not wait for that, so that a hook may call
// it: done is closed then.
func (s *Server) Cut() (done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := make(chan struct{})
	if s.closed {
		close(end)
		return end
	}
	s.running.Add(1)
	go s.runCrash(end)
	return end
}

func (s *Server) dispatch(ctx context.Context, q *transport.Request) (stat transport.AcceptStat, replayed bool) {
	if s.tooWeak(q) {
		return transport.TooWeak, false
	}
	switch q.Prog {
	case wire.NFSProgram:
		switch {
		case q.Vers == wire.NFSVersion && s.cfg.Versions&V3 != 0:
			return s.serveNFS(ctx, q)
		case q.Vers == nfs4.Version && s.v4 != nil:
			return s.v4.Serve(ctx, q)
		}
		q.Low, q.High = s.cfg.Versions.bounds()
		return transport.ProgMismatch, false
	case wire.RpcbindProgram:
		if stat := version(q, wire.PortmapVersion); stat != transport.Success {
			return stat, false
		}
		return s.servePortmap(q), false
	}
	if s.cfg.Versions&V3 == 0 {
		return transport.ProgUnavail, false // the others are companions of version 3
	}
	switch q.Prog {
	case wire.ACLProgram:
		return s.serveACL(q), false
	case wire.MountProgram:
		if stat := version(q, wire.MountVersion); stat != transport.Success {
			return stat, false
		}
		return s.serveMount(q), false
	case nlm.Program:
		if stat := version(q, nlm.Version); stat != transport.Success {
			return stat, false
		}
		return s.serveLocks(q), false
	}
	return transport.ProgUnavail, false
}

// tooWeak reports whether a call must come by TLS, and does not. NULL may come as it likes: mount.nfs of Linux makes one in
// clear text before the kernel mounts.
func (s *Server) tooWeak(q *transport.Request) bool {
	return s.cfg.TLS != nil && s.cfg.TLS.Require && q.Transport == "tcp" && !q.Encrypted && q.Proc != wire.ProcNull && (q.Prog == wire.NFSProgram || q.Prog == wire.ACLProgram)
}

func version(q *transport.Request, only uint32) transport.AcceptStat {
	if q.Vers == only {
		return transport.Success
	}
	q.Low, q.High = only, only
	return transport.ProgMismatch
}

// procs is the procedures of NFSv3 by number.
var procs = [...]func(*Server, *transport.Request) transport.AcceptStat{
	wire.ProcNull: (*Server).null, wire.ProcGetAttr: (*Server).getattr, wire.ProcSetAttr: (*Server).setattr,
	wire.ProcLookup: (*Server).lookup, wire.ProcAccess: (*Server).access, wire.ProcReadLink: (*Server).readlink,
	wire.ProcRead: (*Server).read, wire.ProcWrite: (*Server).write, wire.ProcCreate: (*Server).create,
	wire.ProcMkdir: (*Server).mkdir, wire.ProcSymlink: (*Server).symlink, wire.ProcMknod: (*Server).mknod,
	wire.ProcRemove: (*Server).remove, wire.ProcRmdir: (*Server).rmdir, wire.ProcRename: (*Server).rename,
	wire.ProcLink: (*Server).link, wire.ProcReadDir: (*Server).readdir, wire.ProcReadDirPlus: (*Server).readdirplus,
	wire.ProcFSStat: (*Server).fsstat, wire.ProcFSInfo: (*Server).fsinfo, wire.ProcPathConf: (*Server).pathconf,
	wire.ProcCommit: (*Server).commit,
}

func (s *Server) serveNFS(ctx context.Context, q *transport.Request) (stat transport.AcceptStat, replayed bool) {
	if q.Proc >= uint32(len(procs)) {
		return transport.ProcUnavail, false
	}
	s.stats.proc[q.Proc].Add(1)
	f := procs[q.Proc]
	if s.state != nil && (cached(q.Proc) || q.Proc == wire.ProcWrite) {
		defer s.state.Change()()
	}
	if !cached(q.Proc) {
		return f(s, q), false
	}
	dups := s.dups.Load()
	mine, found := dups.begin(dups.keyOf(q))
	for mine == nil {
		s.stats.duplicates.Add(1)
		if found.replay(ctx, q) {
			return found.stat, true
		}
		if ctx.Err() != nil {
			return transport.NoReply, false
		}
		// The first had malformed arguments; so will this one.
		mine, found = dups.begin(dups.keyOf(q))
	}
	start := len(q.Reply.Bytes())
	stat = transport.SystemErr
	defer func() {
		reply := q.Reply.Bytes()
		dups.end(mine, stat, reply[min(start, len(reply)):])
	}()
	stat = f(s, q)
	return stat, false
}

func (s *Server) null(q *transport.Request) transport.AcceptStat { return transport.Success }

// parser is a pointer to arguments.
type parser[T any] interface {
	*T
	wire.Message
}

// args parses a procedure's arguments, to the last byte.
func args[T any, P parser[T]](q *transport.Request) (a T, ok bool) {
	P(&a).Parse(q.Args)
	return a, q.Args.End() == nil
}
