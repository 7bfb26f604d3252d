package v4

import (
	"context"
	"hash/maphash"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// call is a COMPOUND that is being carried out.
type call struct {
	s    *Server
	ctx  context.Context
	q    *transport.Request
	comp wire.Compound
	peer state.Peer
	ses  *state.Call // nil outside a session
	// at is the operation that is carried out now.
	at int
	// limit is how long the reply may become, and over the status if it is longer.
	limit int
	over  wire.Status

	cur, saved           object
	curState, savedState stateid
	refs                 []object // to be put at the end
	// raw is the results of an operation that has encoded them itself.
	raw xdr.Writer
	// payloads are those of the reply, kept for the session's copy of it.
	payloads []transport.Payload
}

// stateid is the current or saved one, if there is one.
type stateid struct {
	set bool
	id  wire.Stateid
}

// compound is COMPOUND (RFC 8881 section 16.2).
func (s *Server) compound(ctx context.Context, q *transport.Request) (stat transport.AcceptStat, replayed bool) {
	c := &call{s: s, ctx: ctx, q: q}
	probe := *q.Args
	size := probe.Remaining()
	digest := s.digest(q, probe)
	c.comp.ParseArgs(q.Args)
	if q.Args.End() != nil {
		return transport.GarbageArgs, false
	}
	if m := c.comp.Minor; m >= uint32(len(s.cfg.Minors)) || !s.cfg.Minors[m] {
		c.comp.Status = wire.ErrMinorVersMismatch
		c.comp.AppendRes(q.Reply)
		return transport.Success, false
	}
	c.peer = peer(q, c.comp.Minor)
	defer c.release()
	start := len(q.Reply.Bytes())
	first, inSession := c.begin(state.Compound{Ops: len(c.comp.Ops), Size: size, Digest: digest})
	if c.ses != nil && c.ses.Replay != nil {
		q.Reply.Fixed(c.ses.Replay) // whole words
		return transport.Success, true
	}
	if !inSession {
		c.run(first)
		return transport.Success, false
	}
	ended := false
	defer func() {
		if !ended {
			c.ses.End(nil)
		}
	}()
	c.run(first)
	ended = true
	c.ses.End(c.copyOf(start))
	return transport.Success, false
}

// digest tells one COMPOUND from another: a hash over the first of its arguments, and their length.
func (s *Server) digest(q *transport.Request, args xdr.Reader) uint64 {
	const head = 512
	var h maphash.Hash
	h.SetSeed(s.seed)
	n := args.Remaining()
	h.Write(args.Fixed(min(n, head) &^ 3))
	maphash.WriteComparable(&h, [2]uint64{uint64(n), uint64(q.Sys.UID)})
	return max(h.Sum64(), 1)
}

// begin judges the first operation, which says whether the COMPOUND is one of a session. It returns
// the status of the first operation; if that is not OK, or the COMPOUND is a replay, nothing else is
// carried out.
func (c *call) begin(in state.Compound) (first wire.Status, inSession bool) {
	c.limit, c.over = c.s.cfg.MaxIO+replyRoom, wire.ErrRepTooBig
	if len(c.comp.Ops) == 0 {
		return wire.OK, false
	}
	switch o := c.comp.Ops[0].(type) {
	case *wire.Sequence:
		ses, st := c.s.cfg.State.Sequence(c.peer, o, in)
		if st != wire.OK {
			return st, false
		}
		c.ses = ses
		if ses.Replay != nil {
			return wire.OK, false
		}
		if ses.Uncached {
			return wire.OK, false
		}
		if ses.MaxReply > 0 {
			c.limit = ses.MaxReply
		}
		if o.CacheThis && ses.MaxCached > 0 && ses.MaxCached < c.limit {
			c.limit, c.over = ses.MaxCached, wire.ErrRepTooBigToCache
		}
		return wire.OK, true
	case *wire.ExchangeID, *wire.CreateSession, *wire.DestroySession, *wire.BindConnToSession, *wire.DestroyClientID:
		if len(c.comp.Ops) > 1 {
			return wire.ErrNotOnlyOp, false
		}
		return wire.OK, false
	case *wire.Unknown:
		return c.unknown(o), false
	}
	return wire.ErrOpNotInSession, false
}

// replyRoom is what a reply may have beside the data of a READ.
const replyRoom = 4096

// run carries out the operations and encodes the results as it goes on: what the next operation may
// answer depends on what is left of the reply.
func (c *call) run(first wire.Status) {
	w := c.q.Reply
	statusAt := len(w.Bytes())
	w.Uint32(0)
	w.String(c.comp.Tag)
	countAt := len(w.Bytes())
	w.Uint32(0)
	st := wire.OK
	done := 0
	for i, o := range c.comp.Ops {
		c.at = i
		st = first
		if st == wire.OK {
			st = c.operation(o)
		}
		mark := len(w.Bytes())
		c.append(w, o, st)
		// What exceeds the limit here has changed nothing: those that do were asked before.
		if st == wire.OK && w.Len() > c.limit {
			w.Truncate(mark)
			st = c.over
			c.append(w, o, st)
		}
		done++
		if st != wire.OK {
			break
		}
	}
	w.SetUint32(statusAt, uint32(st))
	w.SetUint32(countAt, uint32(done))
}

// append encodes the result of one operation.
func (c *call) append(w *xdr.Writer, o wire.Operation, st wire.Status) {
	op := o.Op()
	if st == wire.ErrOpIllegal {
		op = wire.OpIllegal
	}
	w.Uint32(uint32(op))
	w.Uint32(uint32(st))
	if _, ok := o.(*wire.ReadDir); ok {
		if st == wire.OK {
			w.Fixed(c.raw.Bytes())
		}
		return
	}
	o.AppendRes(w, st)
}

// unknown is the status of an operation that the codec does not have.
func (c *call) unknown(o *wire.Unknown) wire.Status {
	if o.Defined(c.comp.Minor) {
		return nfsclient.ErrNotSupp
	}
	return wire.ErrOpIllegal
}

// operation carries one out.
func (c *call) operation(o wire.Operation) wire.Status {
	if n := int(o.Op()); n < numOps {
		c.s.ops[n].Add(1)
	}
	if c.ses != nil && c.ses.Uncached && c.at > 0 {
		return wire.ErrRetryUncachedRep
	}
	if f := c.s.cfg.Operation; f != nil {
		if st := f(c.ctx, o); st != wire.OK {
			return st
		}
	}
	if changes(o.Op()) && c.q.Reply.Len()+resultMax(o) > c.limit {
		return c.over
	}
	return c.dispatch(o)
}

// changes says which operations must not be carried out if their results could not be sent.
func changes(o wire.Op) bool {
	switch o {
	case wire.OpOpen, wire.OpClose, wire.OpCreate, wire.OpRemove, wire.OpRename, wire.OpLink, wire.OpSetAttr, wire.OpWrite,
		wire.OpLock, wire.OpLockU, wire.OpOpenDowngrade, wire.OpDelegReturn, wire.OpSetXattr, wire.OpRemoveXattr,
		wire.OpCopy, wire.OpClone, wire.OpAllocate, wire.OpDeallocate, wire.OpFreeStateID, wire.OpReclaimComplete:
		return true
	}
	return false
}

// resultMax bounds the results of operations that change something, as this server makes them: it
// sends short names of users, and short bitmaps.
func resultMax(o wire.Operation) int {
	switch o.(type) {
	case *wire.Open:
		return 8 + 16 + 20 + 4 + 16 + (4 + 16 + 4 + 12 + 3*4 + 4 + 16)
	case *wire.Lock, *wire.LockT:
		return 8 + 16 // who is denied is told if there is room
	case *wire.SetAttr, *wire.Create:
		return 8 + 20 + 16
	}
	return o.ReplyMax()
}

// dispatch is operation without the rules that all have in common.
func (c *call) dispatch(o wire.Operation) wire.Status {
	switch o := o.(type) {
	case *wire.Sequence:
		if c.at > 0 {
			return wire.ErrSequencePos
		}
		return wire.OK // begin has done it
	case *wire.Unknown:
		return c.unknown(o)
	case *wire.ExchangeID, *wire.CreateSession, *wire.DestroySession, *wire.BindConnToSession, *wire.DestroyClientID,
		*wire.ReclaimComplete, *wire.TestStateID, *wire.FreeStateID:
		return c.client(o)
	case *wire.PutRootFH:
		c.set(object{dir: c.s.ns.root})
		return wire.OK
	case *wire.PutFH:
		return c.putFH(o)
	}
	if st := c.needs(o); st != wire.OK {
		return st
	}
	if st := c.secured(o); st != wire.OK {
		return st
	}
	switch o.Op() {
	case wire.OpSetAttr, wire.OpRemove, wire.OpRename, wire.OpLink, wire.OpSetXattr, wire.OpRemoveXattr:
		defer c.s.cfg.State.Change()()
	}
	switch o := o.(type) {
	case *wire.GetFH:
		o.Handle = c.cur.handle()
		return wire.OK
	case *wire.SaveFH:
		c.saved, c.savedState = c.cur, c.curState
		return wire.OK
	case *wire.RestoreFH:
		c.cur, c.curState = c.saved, c.savedState
		return wire.OK
	case *wire.Lookup:
		return c.lookup(o.Name)
	case *wire.LookupP:
		return c.lookupParent()
	case *wire.SecInfo:
		return c.secInfo(o)
	case *wire.SecInfoNoName:
		return c.secInfoNoName(o)
	case *wire.GetAttr:
		return c.getAttr(o)
	case *wire.SetAttr:
		return c.setAttr(o)
	case *wire.Verify:
		return c.verify(&o.Attrs, wire.OK, wire.ErrNotSame)
	case *wire.NVerify:
		return c.verify(&o.Attrs, wire.ErrSame, wire.OK)
	case *wire.Access:
		return c.access(o)
	case *wire.ReadLink:
		return c.readLink(o)
	case *wire.ReadDir:
		return c.readDir(o)
	case *wire.Read:
		return c.read(o)
	case *wire.Write:
		return c.write(o)
	case *wire.Commit:
		return c.commit(o)
	case *wire.Create:
		return c.create(o)
	case *wire.Remove:
		return c.remove(o)
	case *wire.Rename:
		return c.rename(o)
	case *wire.Link:
		return c.link(o)
	case *wire.Open:
		return c.open(o)
	case *wire.Close, *wire.OpenDowngrade, *wire.Lock, *wire.LockT, *wire.LockU, *wire.DelegReturn:
		return c.stateOp(o)
	case *wire.GetXattr, *wire.SetXattr, *wire.ListXattrs, *wire.RemoveXattr:
		return c.xattr(o)
	case *wire.Seek, *wire.Allocate, *wire.Deallocate, *wire.Copy, *wire.Clone, *wire.OffloadStatus:
		return c.ranges(o)
	}
	return nfsclient.ErrNotSupp
}

// needs checks that the filehandles are there that an operation works on.
func (c *call) needs(o wire.Operation) wire.Status {
	switch o.Op() {
	case wire.OpRestoreFH:
		if !c.saved.set() {
			return wire.ErrNoFileHandle
		}
		return wire.OK
	case wire.OpRename, wire.OpLink, wire.OpCopy, wire.OpClone:
		if !c.saved.set() {
			return wire.ErrNoFileHandle
		}
	case wire.OpOffloadStatus:
		return wire.OK
	}
	if !c.cur.set() {
		return wire.ErrNoFileHandle
	}
	return wire.OK
}

// copyOf is the reply as it would stand in the stream, for the session to keep; nil if the client
// does not want that.
func (c *call) copyOf(start int) []byte {
	o, _ := c.comp.Ops[0].(*wire.Sequence)
	w := c.q.Reply
	if len(w.Marks()) == 0 {
		return w.Bytes()[start:]
	}
	if !o.CacheThis {
		return nil
	}
	var out []byte
	at := start
	for _, m := range w.Marks() {
		out = append(out, w.Bytes()[at:m.Off]...)
		at = m.Off
		b := make([]byte, m.Len+xdr.Pad(m.Len))
		c.payloads[m.Index].CopyOut(0, b[:m.Len])
		out = append(out, b...)
	}
	return append(out, w.Bytes()[at:]...)
}

// release gives back what the call refers to.
func (c *call) release() {
	for _, o := range c.refs {
		o.ex.Tree.Put(o.node)
	}
}

// cred is the user the call acts for in an export.
func (c *call) cred(e *Export) vfs.Cred { return e.Cred(c.q) }
