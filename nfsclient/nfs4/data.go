package nfs4

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// readOp and writeOp hold all that a READ or WRITE needs, so that the busiest calls allocate
// little.
type readOp struct {
	q     request
	fh    wire.PutFH
	attrs wire.GetAttr
	read  wire.Read
	ops   [3]wire.Operation
	data  [1]transport.Payload
}

type writeOp struct {
	q     request
	fh    wire.PutFH
	write wire.Write
	attrs wire.GetAttr
	ops   [3]wire.Operation
	data  [1]transport.Payload
}

var (
	// The attributes come before the data: what others write in between is then in the data, and
	// shows as a change next time. The other way round it would never show.
	readOps = sync.Pool{New: func() any {
		o := new(readOp)
		o.ops = [3]wire.Operation{&o.fh, &o.attrs, &o.read}
		o.q.op, o.q.at = "READ", 2
		return o
	}}
	writeOps = sync.Pool{New: func() any {
		o := new(writeOp)
		o.ops = [3]wire.Operation{&o.fh, &o.write, &o.attrs}
		o.q.op, o.q.at, o.q.impatient = "WRITE", 1, true
		return o
	}}
)

// Read implements nfsclient.Client. It asks for Info.ReadMax bytes at most.
func (c *Client) Read(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, to mem.Vec) (nfsclient.ReadResult, error) {
	asked := to.Len()
	if asked == 0 {
		return nfsclient.ReadResult{}, nil
	}
	open, err := opening(st)
	if err != nil {
		return nfsclient.ReadResult{}, err
	}
	if asked > c.info.ReadMax {
		asked = c.info.ReadMax
		to = to.Slice(nil, 0, asked)
	}
	o := readOps.Get().(*readOp)
	defer func() {
		o.data[0], o.q.Call.Recv, o.q.Prepare = nil, nil, nil
		readOps.Put(o)
	}()
	o.fh.Handle, o.attrs.Want = h, c.fs.stat
	o.read.Offset, o.read.Count, o.read.Data, o.read.EOF = off, uint32(asked), wire.Marked(0), false
	o.data[0] = to
	o.q.Ops, o.q.Recv = o.ops[:], o.data[:]
	err = c.withState(ctx, cr, &o.q, open, &o.read.Stateid)
	if err != nil && o.q.Status == wire.ErrOpenMode && open != nil {
		// The file is open for writing alone, and a part of a page is to be read.
		err = c.withState(ctx, cr, &o.q, nil, &o.read.Stateid)
	}
	var r nfsclient.ReadResult
	r.Attr.Attr, r.Attr.Set = c.postOf(&o.q, 1)
	if err != nil {
		return r, settle(err)
	}
	r.N, r.EOF = o.read.Data.Len, o.read.EOF
	if r.N == 0 && !r.EOF {
		// A caller that read on would never reach the end. If the size says that the
		// file ends here, the server has merely not set eof.
		if !r.Attr.Set || off < r.Attr.Size {
			return nfsclient.ReadResult{}, broken("READ", "no data and no end of file")
		}
		r.EOF = true
	}
	return r, nil
}

// Write implements nfsclient.Client. It sends Info.WriteMax bytes at most.
func (c *Client) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (nfsclient.WriteResult, error) {
	given := from.Len()
	if given == 0 {
		return nfsclient.WriteResult{}, fmt.Errorf("WRITE: no data given")
	}
	open, err := opening(st)
	if err != nil {
		return nfsclient.WriteResult{}, err
	}
	if open == nil {
		// An opening for writing has seen to delegations.
		done, err := c.alter(ctx, h)
		if err != nil {
			return nfsclient.WriteResult{}, err
		}
		defer done()
	}
	if given > c.info.WriteMax {
		given = c.info.WriteMax
		from = from.Slice(nil, 0, given)
	}
	o := writeOps.Get().(*writeOp)
	defer func() {
		o.data[0], o.q.Call.Send, o.q.Prepare = nil, nil, nil
		writeOps.Put(o)
	}()
	o.fh.Handle, o.attrs.Want = h, c.fs.stat
	o.write.Offset, o.write.Stable, o.write.Data = off, how, wire.Marked(0)
	o.data[0] = from
	o.q.Ops, o.q.Send = c.last(o.ops[:], 1), o.data[:]
	if err := c.withState(ctx, cr, &o.q, open, &o.write.Stateid); err != nil {
		return nfsclient.WriteResult{}, settle(err)
	}
	var r nfsclient.WriteResult
	if c.cf.Private {
		r.Wcc.After.Attr, r.Wcc.After.Set = c.attrAfter(ctx, cr, h)
	} else {
		r.Wcc.After.Attr, r.Wcc.After.Set = c.postOf(&o.q, 2)
	}
	switch {
	case o.write.Count == 0 || uint64(o.write.Count) > uint64(given):
		return r, broken("WRITE", "a count of %d for %d bytes", o.write.Count, given)
	case o.write.Committed < how:
		return r, broken("WRITE", "committed %d where %d was asked for", o.write.Committed, how)
	}
	r.N, r.Committed, r.Verifier = int(o.write.Count), o.write.Committed, o.write.Verifier
	return r, nil
}

// attrAfter is the attributes that a change has left, if they can be had now.
func (c *Client) attrAfter(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, bool) {
	q := &request{op: "GETATTR", at: 1, impatient: true}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, c.getattr()}
	if c.do(ctx, cr, q) != nil {
		return nfsclient.Attr{}, false
	}
	return c.postOf(q, 1)
}

// last are the operations of a call whose operation at carries data of any length: see Config.Private.
func (c *Client) last(ops []wire.Operation, at int) []wire.Operation {
	if c.cf.Private {
		return ops[:at+1]
	}
	return ops
}

// Commit implements nfsclient.Client.
func (c *Client) Commit(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, off uint64, count uint32) (nfsclient.Verifier, nfsclient.Wcc, error) {
	cm := &wire.Commit{Offset: off, Count: count}
	q := &request{op: "COMMIT", at: 1, impatient: true}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, cm, c.getattr()}
	if err := c.do(ctx, cr, q); err != nil {
		return nfsclient.Verifier{}, nfsclient.Wcc{}, settle(err)
	}
	var w nfsclient.Wcc
	w.After.Attr, w.After.Set = c.postOf(q, 2)
	return cm.Verifier, w, nil
}
