package oncrpc

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Serve answers one call: q.Args is positioned at the call's header, and q.Reply is
// empty. Serve sets the header's fields of q, runs h and leaves the whole reply in
// q.Reply. ok is false if the message is not a call, its header is truncated, h
// returned NoReply, or a Guard discards the call: there is no reply then, and the
// connection must be closed.
//
// If h reports success although the arguments were malformed, the reply is
// GARBAGE_ARGS. Calls of RPCSEC_GSS are served if h is a Guard.
func Serve(ctx context.Context, h transport.Handler, q *transport.Request) (ok bool) {
	first := q.Args.Offset()
	head, err := ParseCall(q.Args)
	q.XID, q.Prog, q.Vers, q.Proc, q.Flavor = head.XID, head.Prog, head.Vers, head.Proc, head.Flavor
	q.Sys, q.Security = head.Sys, head.Flavor
	if err != nil {
		if g, ok := h.(Guard); ok && err == errGuarded {
			return serveGuarded(ctx, g, q, parseAuth(q.Args.Since(first)))
		}
		return refuse(q.Reply, head.XID, err)
	}
	w := q.Reply
	start := len(w.Bytes())
	appendAccepted(w, q.XID, transport.Success)
	stat := h.Serve(ctx, q)
	if stat == transport.NoReply {
		return false
	}
	if stat == transport.Success && q.Args.Err() != nil {
		stat = transport.GarbageArgs
	}
	if stat == transport.Success {
		return true
	}
	w.Truncate(start)
	if stat == transport.TooWeak {
		return refuse(w, q.XID, errTooWeak)
	}
	appendAccepted(w, q.XID, stat)
	appendRange(q, stat)
	return true
}

// appendRange encodes what follows an accept_stat other than Success.
func appendRange(q *transport.Request, stat transport.AcceptStat) {
	if stat == transport.ProgMismatch {
		q.Reply.Uint32(q.Low)
		q.Reply.Uint32(q.High)
	}
}

// appendAccepted encodes an accepted_reply up to its results (RFC 5531
// section 9).
func appendAccepted(w *xdr.Writer, xid uint32, stat transport.AcceptStat) {
	w.Uint32(xid)
	w.Uint32(msgReply)
	w.Uint32(msgAccepted)
	w.Uint32(transport.FlavorNone)
	w.Uint32(0)
	w.Uint32(uint32(stat))
}

// refuse encodes a rejected_reply (RFC 5531 section 9). It returns false if there
// is none for err.
func refuse(w *xdr.Writer, xid uint32, err error) bool {
	var auth *AuthError
	isAuth := errors.As(err, &auth)
	if !isAuth && !errors.Is(err, ErrRPCVersion) {
		return false
	}
	w.Uint32(xid)
	w.Uint32(msgReply)
	w.Uint32(msgDenied)
	if isAuth {
		w.Uint32(authError)
		w.Uint32(auth.Stat)
		return true
	}
	w.Uint32(rpcMismatch)
	w.Uint32(Version)
	w.Uint32(Version)
	return true
}
