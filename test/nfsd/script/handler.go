package script

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

type handler struct {
	*Script
	next transport.Handler
}

// Wrap is for nfsd.Config.Wrap.
func (s *Script) Wrap(h transport.Handler) transport.Handler { return handler{s, h} }

func (h handler) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Prog != wire.NFSProgram {
		return h.next.Serve(ctx, q)
	}
	if q.Vers == 4 {
		return h.serve4(ctx, q)
	}
	h.mu.Lock()
	r, thaw, frozen := h.r, h.thaw, h.frozen
	h.mu.Unlock()
	first, name := peek(q)
	if thaw != nil && frozen != "" && first == frozen {
		h.mu.Lock()
		h.struck++
		h.mu.Unlock()
		select {
		case <-thaw:
		case <-ctx.Done():
			return transport.NoReply
		}
	}
	start := len(q.Reply.Bytes())
	if r.liar && h.lie(q) {
		return transport.Success
	}
	if (q.Proc == wire.ProcRead || q.Proc == wire.ProcWrite) && h.hit(func(r *rules) int { return r.jukebox }) {
		q.Reply.Uint32(uint32(nfsclient.ErrJukebox))
		if q.Proc == wire.ProcWrite {
			q.Reply.Bool(false)
		}
		q.Reply.Bool(false)
		return transport.Success
	}
	stat := h.next.Serve(ctx, q)
	if stat != transport.Success {
		return stat
	}
	h.learn(q, start, name, r.freeze)
	if r.clock != 0 {
		h.shift(q, start, r.clock)
	}
	if h.hit(func(r *rules) int { return r.late }) {
		h.wait(ctx, r.longest)
	}
	if n := len(q.Reply.Bytes()) - start; n > 0 && h.hit(func(r *rules) int { return r.truncate }) {
		q.Reply.Truncate(start + h.below(n)/4*4)
	}
	return stat
}

// wait is until the reply may leave.
func (s *Script) wait(ctx context.Context, longest time.Duration) {
	t := time.NewTimer(time.Duration(s.below(int(longest))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// peek is the handle that the arguments begin with, and the name after it where
// there is one. It consumes nothing.
func peek(q *transport.Request) (nfsclient.Handle, string) {
	switch q.Proc {
	case wire.ProcNull:
		return "", ""
	case wire.ProcLookup, wire.ProcCreate:
		var a wire.DirOp
		probe := *q.Args
		a.Parse(&probe)
		return a.Dir, a.Name
	}
	var a wire.HandleArgs
	probe := *q.Args
	a.Parse(&probe)
	return a.Handle, ""
}

// results decodes what stands in the reply from start on.
func results(q *transport.Request, start int, into wire.Message) bool {
	var r xdr.Reader
	r.Reset(append([]byte(nil), q.Reply.Bytes()[start:]...), nil)
	into.Parse(&r)
	return r.End() == nil
}

// learn records handles and verifiers.
func (s *Script) learn(q *transport.Request, start int, name, freeze string) {
	var h nfsclient.Handle
	switch q.Proc {
	case wire.ProcLookup:
		var res wire.LookupRes
		if freeze != "" && name == freeze && results(q, start, &res) && res.Status == nfsclient.OK {
			h = res.Handle
		}
	case wire.ProcCreate:
		var res wire.MadeRes
		if freeze != "" && name == freeze && results(q, start, &res) && res.Status == nfsclient.OK {
			h = res.Handle.Handle
		}
	case wire.ProcWrite:
		var res wire.WriteRes
		if results(q, start, &res) && res.Status == nfsclient.OK {
			s.mu.Lock()
			s.verf = res.Verifier
			s.mu.Unlock()
		}
		return
	}
	if h != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.r.freeze == freeze {
			s.frozen = h
		}
	}
}

// lie answers a COMMIT, or a WRITE that is to be stable, without carrying it out.
func (s *Script) lie(q *transport.Request) bool {
	s.mu.Lock()
	verf := s.verf
	s.mu.Unlock()
	switch q.Proc {
	case wire.ProcCommit:
		res := wire.CommitRes{Verifier: verf}
		res.Append(q.Reply)
	case wire.ProcWrite:
		probe := *q.Args
		probe.String(wire.MaxHandle)
		probe.Uint64()
		count, stable := probe.Uint32(), nfsclient.Stable(probe.Uint32())
		if stable == nfsclient.Unstable {
			return false
		}
		res := wire.WriteRes{Count: count, Committed: stable, Verifier: verf}
		res.Append(q.Reply)
	default:
		return false
	}
	s.mu.Lock()
	s.struck++
	s.mu.Unlock()
	return true
}
