package v4

import (
	"context"
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// offloaded is a COPY that goes on after its answer (RFC 7862 section 15.2.3).
type offloaded struct {
	ex       *Export
	cred     vfs.Cred
	client   wire.ClientID
	from, to string // handles
	args     wire.Copy
}

// offload answers COPY at once, and has it carried out.
func (c *call) offload(from, to object, a *wire.Copy) wire.Status {
	o := &offloaded{ex: to.ex, cred: c.cred(to.ex), client: c.ses.Client, from: from.node.Handle(), to: to.node.Handle()}
	o.cred.GIDs = slices.Clone(o.cred.GIDs) // borrowed from the call
	sid, st := c.s.cfg.State.BeginCopy(c.ses, to.handle())
	if st != wire.OK {
		return st
	}
	a.Verifier = c.s.cfg.Verifier()
	a.HasCallback, a.Callback = true, sid
	a.Committed, a.ResConsecutive, a.ResSynchronous = nfsclient.Unstable, true, false
	o.args = *a
	if !c.s.cfg.Go(func(ctx context.Context) { c.s.runCopy(ctx, o) }) {
		c.s.cfg.State.FreeCopy(sid)
		return wire.ErrDelay // the server is being closed
	}
	return wire.OK
}

// runCopy carries out a copy, and tells the client.
func (s *Server) runCopy(ctx context.Context, o *offloaded) {
	n, err := s.copyAll(ctx, o)
	st := statusOf(err)
	sid := o.args.Callback
	s.cfg.State.EndCopy(sid, n, st)
	told, err := s.cfg.CallBack(ctx, o.client, &wire.CBOffload{Handle: nfsclient.Handle(o.to), Stateid: sid, Outcome: st, Copied: n,
		Committed: nfsclient.Unstable, Verifier: o.args.Verifier})
	// A client that was not told asks by OFFLOAD_STATUS.
	if err == nil && told == wire.OK {
		s.cfg.State.FreeCopy(sid)
	}
}

func (s *Server) copyAll(ctx context.Context, o *offloaded) (done uint64, err error) {
	from, err := o.ex.Tree.Get(o.from)
	if err != nil {
		return 0, err
	}
	defer o.ex.Tree.Put(from)
	to, err := o.ex.Tree.Get(o.to)
	if err != nil {
		return 0, err
	}
	defer o.ex.Tree.Put(to)
	if s.cfg.Hold != nil {
		defer s.cfg.Hold()()
	}
	for ctx.Err() == nil {
		var ch vfs.Change
		left := o.args.Count
		if left > 0 {
			left -= done
		}
		n, err := o.ex.Tree.Copy(&o.cred, from, o.args.FromOffset+done, to, o.args.ToOffset+done, left, &ch)
		done += n
		if err != nil || n == 0 || done == o.args.Count {
			return done, err
		}
	}
	return done, ctx.Err()
}
