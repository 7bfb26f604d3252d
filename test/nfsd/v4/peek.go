package v4

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Peek decodes the arguments of a COMPOUND for who stands before the server, and consumes nothing: what has
// come as a chunk can be read once alone, by the server. It returns false if c has only the operations up to
// one with data beside the stream.
func Peek(q *transport.Request, c *wire.Compound) bool {
	all := *q.Args
	var r xdr.Reader
	r.Reset(all.Fixed(all.Remaining()), nil)
	c.ParseArgs(&r)
	return r.End() == nil
}
