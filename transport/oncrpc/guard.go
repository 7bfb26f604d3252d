package oncrpc

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Guard is a Handler that serves calls of RPCSEC_GSS besides.
type Guard interface {
	transport.Handler
	// Admit checks credential and verifier of a call whose header is in q; q.Args
	// is positioned at the arguments. It sets q.Security and q.Principal. An
	// *AuthError denies the call; with any other error there is no reply.
	Admit(q *transport.Request, a Auth) (Admission, error)
}

// Auth is the credential and the verifier of a call, as they were received. The
// slices are borrowed.
type Auth struct {
	// Cred is the body of the credential.
	Cred []byte
	// VerfFlavor and Verf are the verifier.
	VerfFlavor uint32
	Verf       []byte
	// Signed is the message from its XID to the end of the credential: what a
	// verifier of RPCSEC_GSS is made for (RFC 2203 section 5.3.1).
	Signed []byte
}

// Admission is a call that a Guard has admitted.
type Admission interface {
	// Serve carries out the call: with h, or without if it is one of the Guard's
	// own.
	Serve(ctx context.Context, q *transport.Request, h transport.Handler) transport.AcceptStat
	// AppendVerifier encodes the verifier of the reply.
	AppendVerifier(w *xdr.Writer)
	// Protection transforms arguments and results; nil if they travel as they are.
	// It is the mirror of the client's: Unprotect is for arguments, Protect for
	// results.
	Protection() transport.Protection
}

// ErrDiscard: a Guard has no answer to a call.
var ErrDiscard = errors.New("call discarded")

// Admit asks h, if it is a Guard, for a Handler that passes calls on to h.
func Admit(h transport.Handler, q *transport.Request, a Auth) (Admission, error) {
	if g, ok := h.(Guard); ok {
		return g.Admit(q, a)
	}
	return nil, errGuarded
}

// serveGuarded is Serve for calls of RPCSEC_GSS, from behind the header on.
func serveGuarded(ctx context.Context, g Guard, q *transport.Request, a Auth) (ok bool) {
	w := q.Reply
	start := len(w.Bytes())
	call, err := g.Admit(q, a)
	if err != nil {
		return refuse(w, q.XID, err)
	}
	appendVerified(w, q.XID, call, transport.Success)
	results := len(w.Bytes())
	p := call.Protection()
	stat := transport.GarbageArgs
	if p == nil || unprotect(q, p) {
		stat = call.Serve(ctx, q, g)
	}
	if stat == transport.NoReply {
		return false
	}
	if stat == transport.Success && q.Args.Err() != nil {
		stat = transport.GarbageArgs
	}
	if stat != transport.Success {
		// Only results are protected (RFC 2203 section 5.3.3.4).
		w.Truncate(start)
		if stat == transport.TooWeak {
			return refuse(w, q.XID, errTooWeak)
		}
		appendVerified(w, q.XID, call, stat)
		appendRange(q, stat)
		return true
	}
	if p != nil {
		flat := w.AppendFlat(make([]byte, 0, w.Len()), results)
		w.Truncate(results)
		p.Protect(w, flat)
	}
	return true
}

// parseAuth decodes credential and verifier of a call's header, which is well-formed.
func parseAuth(header []byte) (a Auth) {
	var r xdr.Reader
	r.Reset(header, nil)
	r.Fixed(7 * 4) // up to the credential's flavor
	a.Cred = r.Opaque(transport.MaxAuthBody)
	a.Signed = r.Since(0)
	a.VerfFlavor = r.Uint32()
	a.Verf = r.Opaque(transport.MaxAuthBody)
	return a
}

// unprotect puts the arguments in the place of what the call has for them. They are
// copied first: with some RDMA devices the peer can write to memory that was filled by an
// RDMA Read for as long as the call is carried out.
func unprotect(q *transport.Request, p transport.Protection) bool {
	body := append([]byte(nil), q.Args.Fixed(q.Args.Remaining())...)
	if q.Args.End() != nil {
		return false
	}
	args, err := p.Unprotect(body)
	if err != nil {
		return false
	}
	q.Args.Reset(args, nil)
	return true
}

// appendVerified is appendAccepted with a verifier.
func appendVerified(w *xdr.Writer, xid uint32, call Admission, stat transport.AcceptStat) {
	w.Uint32(xid)
	w.Uint32(msgReply)
	w.Uint32(msgAccepted)
	call.AppendVerifier(w)
	w.Uint32(uint32(stat))
}
