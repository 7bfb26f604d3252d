package script

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// serve4 is Serve for COMPOUND of version 4. What the script does to a reply happens behind the
// session: the server has carried the compound out and keeps the reply, so that the call sent
// again is answered, too. "jukebox" and "lie" do nothing here.
func (h handler) serve4(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc != wire.ProcCompound {
		return h.next.Serve(ctx, q)
	}
	h.mu.Lock()
	r, thaw, frozen := h.r, h.thaw, h.frozen
	h.mu.Unlock()
	var c wire.Compound
	whole := false
	if r.freeze != "" || r.clock != 0 {
		whole = v4.Peek(q, &c)
	}
	if thaw != nil && frozen != "" && about(c.Ops, frozen) {
		h.strike()
		select {
		case <-thaw:
		case <-ctx.Done():
			return transport.NoReply
		}
	}
	start := len(q.Reply.Bytes())
	stat := h.next.Serve(ctx, q)
	if stat != transport.Success {
		return stat
	}
	if whole && results4(q, start, &c) {
		if r.freeze != "" {
			h.learn4(&c, r.freeze)
		}
		if r.clock != 0 && shift4(&c, r.clock) {
			q.Reply.Truncate(start)
			c.AppendRes(q.Reply)
			h.strike()
		}
	}
	if h.hit(func(r *rules) int { return r.late }) {
		h.wait(ctx, r.longest)
	}
	if n := len(q.Reply.Bytes()) - start; n > 0 && h.hit(func(r *rules) int { return r.truncate }) {
		q.Reply.Truncate(start + h.below(n)/4*4)
	}
	return stat
}

func (s *Script) strike() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.struck++
}

// about reports whether a compound is about the file, and not only gives its state back.
func about(ops []wire.Operation, file nfsclient.Handle) bool {
	for _, o := range ops {
		if p, is := o.(*wire.PutFH); is && p.Handle == file {
			return true
		}
	}
	return false
}

// results4 decodes what stands in the reply from start on into the operations of c. Replies with
// data beside the stream are left alone.
func results4(q *transport.Request, start int, c *wire.Compound) bool {
	for _, o := range c.Ops {
		switch o.(type) {
		case *wire.Read, *wire.ReadLink:
			return false
		}
	}
	var r xdr.Reader
	r.Reset(append([]byte(nil), q.Reply.Bytes()[start:]...), nil)
	c.ParseRes(&r)
	return r.End() == nil
}

// learn4 remembers the handle of the file that is to be frozen, where a compound has looked it up
// or made it.
func (s *Script) learn4(c *wire.Compound, freeze string) {
	name := ""
	for _, o := range c.Ops[:c.Done] {
		switch o := o.(type) {
		case *wire.Lookup:
			name = o.Name
		case *wire.Open:
			name = o.Name
		case *wire.Create:
			name = o.Name
		case *wire.PutFH, *wire.PutRootFH, *wire.RestoreFH:
			name = ""
		case *wire.GetFH:
			if name == freeze && o.Handle != "" {
				s.mu.Lock()
				if s.r.freeze == freeze {
					s.frozen = o.Handle
				}
				s.mu.Unlock()
			}
		}
	}
}

// shift4 adds seconds to the times in the results and reports whether there were any.
func shift4(c *wire.Compound, seconds int64) (any bool) {
	shift := func(a *wire.Attrs) {
		for _, x := range []struct {
			n wire.AttrNum
			t *wire.Time
		}{{wire.AttrTimeAccess, &a.TimeAccess}, {wire.AttrTimeModify, &a.TimeModify}, {wire.AttrTimeMetadata, &a.TimeMetadata}} {
			if a.Has(x.n) {
				x.t.Sec += seconds
				any = true
			}
		}
	}
	for i, o := range c.Ops[:c.Done] {
		if st, _ := c.Outcome(i); st != wire.OK {
			continue
		}
		switch o := o.(type) {
		case *wire.GetAttr:
			shift(&o.Attrs)
		case *wire.ReadDir:
			for k := range o.Entries {
				shift(&o.Entries[k].Attrs)
			}
		}
	}
	return any
}
