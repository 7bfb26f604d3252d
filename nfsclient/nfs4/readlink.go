package nfs4

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// readLink is READLINK whose target stands in the message, or in its reply chunk, and not in a write
// chunk: RFC 8267 allows that, but Linux servers (6.12) then place the length word with the target, and
// leave its last bytes in the message.
type readLink struct {
	wire.ReadLink
	target string
}

// ParseRes implements wire.Operation. It copies the target, which is borrowed.
func (o *readLink) ParseRes(r *xdr.Reader, st wire.Status) {
	o.ReadLink.ParseRes(r, st)
	o.target = string(o.Target.Data)
}

// ReplyMax implements wire.Operation, target included.
func (o *readLink) ReplyMax() int { return o.ReadLink.ReplyMax() + wire.MaxPath }

// Readlink implements nfsclient.Client.
func (c *Client) Readlink(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (string, *nfsclient.Attr, error) {
	link := &readLink{}
	q := &request{op: "READLINK", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, link, c.getattr()}
	if err := c.do(ctx, cr, q); err != nil {
		return "", nil, settle(err)
	}
	return link.target, c.attrOf(q, 2), nil
}
