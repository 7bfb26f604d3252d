package rfc5666

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// The Connection Configuration Protocol (section 6): one call on a new connection, by which both sides tell what they
// take.
const (
	ConfigProgram = 100417
	configVersion = 1
	configProc    = 1 // CONF_RDMA

	// Align is the alignment that the responder recommends: that of XDR, because it gains nothing from more.
	Align = 4
)

// ConfigRequest is config_rdma_req: the largest inline call that the client may want to send, the largest inline reply it
// takes, and how many RDMA Reads it serves at a time.
type ConfigRequest struct{ CallSize, ReplySize, Reads uint32 }

func (q *ConfigRequest) append(w *xdr.Writer) {
	w.Uint32(q.CallSize)
	w.Uint32(q.ReplySize)
	w.Uint32(q.Reads)
}

func (q *ConfigRequest) parse(r *xdr.Reader) error {
	q.CallSize, q.ReplySize, q.Reads = r.Uint32(), r.Uint32(), r.Uint32()
	return r.End()
}

// ConfigReply is config_rdma_reply: the largest inline call that the server takes, the alignment it recommends, and how
// many RDMA Reads it serves.
type ConfigReply struct{ CallSize, Align, Reads uint32 }

func (p *ConfigReply) append(w *xdr.Writer) {
	w.Uint32(p.CallSize)
	w.Uint32(p.Align)
	w.Uint32(p.Reads)
}

func (p *ConfigReply) parse(r *xdr.Reader) error {
	p.CallSize, p.Align, p.Reads = r.Uint32(), r.Uint32(), r.Uint32()
	return r.End()
}

// Configure makes the call on a new link. A server without the protocol answers with a *transport.RPCError.
func Configure(ctx context.Context, l transport.Link, q ConfigRequest) (p ConfigReply, err error) {
	err = l.Exchange(ctx, rand.Uint32(), &transport.Call{
		Prog: ConfigProgram, Vers: configVersion, Proc: configProc, Args: q.append, Result: p.parse, ReplyMax: 12,
	})
	if err == nil && p.CallSize < wire.MinInline {
		err = fmt.Errorf("%w: server configures calls of %d bytes", transport.ErrProtocol, p.CallSize)
	}
	return p, err
}

// ServeConfig serves the protocol: configure takes a request whose sizes are not below what they can be, and makes the
// reply.
func ServeConfig(q *transport.Request, configure func(*ConfigRequest) (ConfigReply, transport.AcceptStat)) transport.AcceptStat {
	switch {
	case q.Vers != configVersion:
		q.Low, q.High = configVersion, configVersion
		return transport.ProgMismatch
	case q.Proc == 0:
		return transport.Success
	case q.Proc != configProc:
		return transport.ProcUnavail
	}
	var req ConfigRequest
	if req.parse(q.Args) != nil || req.CallSize < wire.MinInline || req.ReplySize < wire.MinInline {
		return transport.GarbageArgs
	}
	reply, stat := configure(&req)
	if stat == transport.Success {
		reply.append(q.Reply)
	}
	return stat
}
