package nfs3

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// readOp and writeOp hold all that a READ or WRITE needs, functions included,
// so that the busiest calls allocate little. A Caller is through with them
// when Call returns.
type readOp struct {
	q    request
	args wire.ReadArgs
	res  wire.ReadRes
	data [1]transport.Payload
}

type writeOp struct {
	q    request
	args wire.WriteArgs
	res  wire.WriteRes
	data [1]transport.Payload
}

var (
	readOps = sync.Pool{New: func() any {
		o := new(readOp)
		o.q = request{op: "READ", proc: wire.ProcRead, args: &o.args, res: &o.res, status: &o.res.Status, replyMax: wire.ReadReplyMax}
		o.q.recv = o.data[:]
		return o
	}}
	writeOps = sync.Pool{New: func() any {
		o := new(writeOp)
		o.q = request{op: "WRITE", proc: wire.ProcWrite, args: &o.args, res: &o.res, status: &o.res.Status, replyMax: wire.WriteReplyMax, impatient: true}
		o.q.send = o.data[:]
		return o
	}}
)

// OpenFile implements nfsclient.Client. The protocol does not open files.
func (c *Client) OpenFile(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenMode) (nfsclient.Opened, error) {
	return nfsclient.Opened{}, nil
}

// CloseFile implements nfsclient.Client.
func (c *Client) CloseFile(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenState) error {
	return nil
}

// Read implements nfsclient.Client. It asks for Info.ReadMax bytes at most.
func (c *Client) Read(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, off uint64, to mem.Vec) (nfsclient.ReadResult, error) {
	asked := to.Len()
	if asked == 0 {
		return nfsclient.ReadResult{}, nil
	}
	if asked > c.info.ReadMax {
		asked = c.info.ReadMax
		to = to.Slice(nil, 0, asked)
	}
	o := readOps.Get().(*readOp)
	defer func() {
		o.data[0] = nil
		readOps.Put(o)
	}()
	o.args = wire.ReadArgs{Handle: h, Offset: off, Count: uint32(asked)}
	o.res = wire.ReadRes{Data: wire.Marked(0)}
	o.data[0] = to
	err := c.do(ctx, cr, &o.q)
	if !answered(err) {
		return nfsclient.ReadResult{}, err
	}
	r := nfsclient.ReadResult{Attr: toResult(&o.res.Attr)}
	if err != nil {
		return r, err
	}
	n := o.res.Data.Len
	if uint32(n) != o.res.Count {
		return nfsclient.ReadResult{}, broken("READ", "a count of %d and %d bytes of data", o.res.Count, n)
	}
	r.N, r.EOF = n, o.res.EOF
	if n == 0 && !r.EOF {
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
func (c *Client) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (nfsclient.WriteResult, error) {
	given := from.Len()
	if given == 0 {
		return nfsclient.WriteResult{}, fmt.Errorf("WRITE: no data given")
	}
	if given > c.info.WriteMax {
		given = c.info.WriteMax
		from = from.Slice(nil, 0, given)
	}
	o := writeOps.Get().(*writeOp)
	defer func() {
		o.args, o.data[0] = wire.WriteArgs{}, nil
		writeOps.Put(o)
	}()
	o.args = wire.WriteArgs{Handle: h, Offset: off, Count: uint32(given), Stable: how, Data: wire.Marked(0)}
	o.res = wire.WriteRes{}
	o.data[0] = from
	err := c.do(ctx, cr, &o.q)
	if !answered(err) {
		return nfsclient.WriteResult{}, err
	}
	r := nfsclient.WriteResult{Wcc: toWcc(&o.res.Wcc)}
	switch {
	case err != nil:
		return r, err
	case o.res.Count == 0 || uint64(o.res.Count) > uint64(given):
		return r, broken("WRITE", "a count of %d for %d bytes", o.res.Count, given)
	case o.res.Committed < how:
		// RFC 1813 section 3.3.7: at least as durable as was asked.
		return r, broken("WRITE", "committed %d where %d was asked for", o.res.Committed, how)
	}
	c.sameServer(o.res.Verifier)
	r.N, r.Committed, r.Verifier = int(o.res.Count), o.res.Committed, o.res.Verifier
	return r, nil
}

// Commit implements nfsclient.Client.
func (c *Client) Commit(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, off uint64, count uint32) (nfsclient.Verifier, nfsclient.Wcc, error) {
	var res wire.CommitRes
	err := c.do(ctx, cr, &request{op: "COMMIT", proc: wire.ProcCommit,
		args: &wire.CommitArgs{Handle: h, Offset: off, Count: count}, res: &res, status: &res.Status, replyMax: wire.CommitReplyMax,
		impatient: true})
	wcc, err := wccOf(&res.Wcc, err)
	if err != nil {
		return nfsclient.Verifier{}, wcc, err
	}
	c.sameServer(res.Verifier)
	return res.Verifier, wcc, nil
}
