package rpcrdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/rfc5666"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// What the Connection Configuration Protocol changes on a link and on a server's connection.

// configure makes the call on a new link. A server without the protocol is reported
// in the log, and what the private data said stays in force.
func (l *link) configure(ctx context.Context) error {
	cfg := &l.d.cfg
	q := rfc5666.ConfigRequest{CallSize: uint32(cfg.InlineSend), ReplySize: uint32(cfg.InlineRecv), Reads: uint32(l.readsIn)}
	p, err := rfc5666.Configure(ctx, l, q)
	var refused *transport.RPCError
	switch {
	case errors.As(err, &refused):
		cfg.Log.Warn(fmt.Sprintf("%s does not take part in the Connection Configuration Protocol: %v", cfg.Addr, err))
		return nil
	case err != nil:
		return err
	}
	limit := int(min(p.CallSize, wire.MaxInline))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setTerms(func(t *plan.Terms) {
		t.SendInline = min(cfg.InlineSend, limit)
		if _, announced := wire.ParsePrivateData(l.conn.PrivateData()); !announced {
			// The server does not say how large its replies may be: as its calls.
			t.RecvInline = min(cfg.InlineRecv, limit)
		}
	})
	l.reads = min(l.reads, int(min(p.Reads, readsOut)))
	l.noteTerms()
	return nil
}

// configure serves the protocol. What the first call on a connection says holds
// for what comes after it.
func (c *serverConn) configure(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return rfc5666.ServeConfig(q, func(req *rfc5666.ConfigRequest) (rfc5666.ConfigReply, transport.AcceptStat) {
		if !c.configured.Swap(true) {
			c.out.Store(int32(min(int(min(req.ReplySize, wire.MaxInline)), c.s.cfg.InlineOut)))
			allowed := min(int(min(req.Reads, uint32(cap(c.reads)))), cap(c.reads))
			c.readable.Store(allowed > 0)
			// Never to be given back. One is left for calls that are being read.
			c.crew.Relieve()
			for range cap(c.reads) - max(allowed, 1) {
				select {
				case c.reads <- struct{}{}:
				case <-ctx.Done():
					return rfc5666.ConfigReply{}, transport.SystemErr
				}
			}
		}
		return rfc5666.ConfigReply{CallSize: uint32(c.s.cfg.InlineIn), Align: rfc5666.Align, Reads: uint32(c.readsIn())}, transport.Success
	})
}
