package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// The Connection Configuration Protocol (RFC 5666 section 6; RFC 8166 dropped
// it): one call on a new connection, by which both sides tell what they take.
const (
	ccpProgram = 100417
	ccpVersion = 1
	ccpConfig  = 1 // CONF_RDMA

	// ccpAlign is the alignment that the responder recommends: that of XDR,
	// because it gains nothing from more.
	ccpAlign = 4
)

// configRequest is config_rdma_req: the largest inline call that the client may
// want to send, the largest inline reply it takes, and how many RDMA Reads it
// serves at a time.
type configRequest struct{ CallSize, ReplySize, Reads uint32 }

func (q *configRequest) append(w *xdr.Writer) {
	w.Uint32(q.CallSize)
	w.Uint32(q.ReplySize)
	w.Uint32(q.Reads)
}

func (q *configRequest) parse(r *xdr.Reader) error {
	q.CallSize, q.ReplySize, q.Reads = r.Uint32(), r.Uint32(), r.Uint32()
	return r.End()
}

// configReply is config_rdma_reply: the largest inline call that the server
// takes, the alignment it recommends, and how many RDMA Reads it serves.
type configReply struct{ CallSize, Align, Reads uint32 }

func (p *configReply) append(w *xdr.Writer) {
	w.Uint32(p.CallSize)
	w.Uint32(p.Align)
	w.Uint32(p.Reads)
}

func (p *configReply) parse(r *xdr.Reader) error {
	p.CallSize, p.Align, p.Reads = r.Uint32(), r.Uint32(), r.Uint32()
	return r.End()
}

// configure makes the call on a new link. A server without the protocol is told
// of in the log, and what the private data said stays in force.
func (l *link) configure(ctx context.Context) error {
	cfg := &l.d.cfg
	q := configRequest{CallSize: uint32(cfg.InlineSend), ReplySize: uint32(cfg.InlineRecv), Reads: uint32(l.readsIn)}
	var p configReply
	err := l.Exchange(ctx, rand.Uint32(), &transport.Call{
		Prog: ccpProgram, Vers: ccpVersion, Proc: ccpConfig, Args: q.append, Result: p.parse, ReplyMax: 12,
	})
	var refused *transport.RPCError
	switch {
	case errors.As(err, &refused):
		cfg.Log.Warn(fmt.Sprintf("%s does not take part in the Connection Configuration Protocol: %v", cfg.Addr, err))
		return nil
	case err != nil:
		return err
	case p.CallSize < wire.MinInline:
		return fmt.Errorf("%w: server configures calls of %d bytes", transport.ErrProtocol, p.CallSize)
	}
	limit := int(min(p.CallSize, wire.MaxInline))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms.SendInline = min(cfg.InlineSend, limit)
	if _, told := wire.ParsePrivateData(l.conn.PrivateData()); !told {
		// The server does not say how large its replies may be: as its calls.
		l.terms.RecvInline = min(cfg.InlineRecv, limit)
	}
	l.reads = min(l.reads, int(min(p.Reads, readsOut)))
	l.d.noteTerms(l)
	return nil
}

// configure serves the protocol. What the first call on a connection says holds
// for what comes after it.
func (c *serverConn) configure(ctx context.Context, q *transport.Request) transport.AcceptStat {
	switch {
	case q.Vers != ccpVersion:
		q.Low, q.High = ccpVersion, ccpVersion
		return transport.ProgMismatch
	case q.Proc == 0:
		return transport.Success
	case q.Proc != ccpConfig:
		return transport.ProcUnavail
	}
	var req configRequest
	if req.parse(q.Args) != nil || req.CallSize < wire.MinInline || req.ReplySize < wire.MinInline {
		return transport.GarbageArgs
	}
	if !c.configured.Swap(true) {
		c.out.Store(int32(min(int(min(req.ReplySize, wire.MaxInline)), c.s.cfg.InlineOut)))
		allowed := min(int(min(req.Reads, uint32(cap(c.reads)))), cap(c.reads))
		c.readable.Store(allowed > 0)
		// Never to be given back. One is left for calls that are being read.
		for range cap(c.reads) - max(allowed, 1) {
			select {
			case c.reads <- struct{}{}:
			case <-ctx.Done():
				return transport.SystemErr
			}
		}
	}
	reply := configReply{CallSize: uint32(c.s.cfg.InlineIn), Align: ccpAlign, Reads: uint32(c.readsIn())}
	reply.append(q.Reply)
	return transport.Success
}
