package rpcsecgss

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	// Acceptor makes the contexts.
	Acceptor Acceptor
	// Flavors are the pseudo-flavors of the mechanism by Service (RFC 2623 section
	// 2.2.1). A call whose service has none, 0, is refused.
	Flavors [Privacy + 1]uint32
	// MaxContexts bounds the contexts; 0 means 4096. When there are as many, the
	// one that was used least recently gives way.
	MaxContexts int
	// Log may be nil. It gets contexts that come and go.
	Log *slog.Logger

	now func() time.Time
}

// Server is a Handler that serves calls of RPCSEC_GSS besides those that its Handler
// serves: the acceptor's half of RFC 2203. It implements oncrpc.Guard.
type Server struct {
	transport.Handler
	cfg      ServerConfig
	contexts table
}

// NewServer returns a Server over h.
func NewServer(h transport.Handler, cfg ServerConfig) *Server {
	if cfg.MaxContexts <= 0 {
		cfg.MaxContexts = 4096
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return &Server{Handler: h, cfg: cfg, contexts: table{max: cfg.MaxContexts, m: map[handle]*accepted{}}}
}

// Forget drops every context, as a server's restart does.
func (s *Server) Forget() { s.contexts.clear() }

// Contexts is how many there are.
func (s *Server) Contexts() int { return s.contexts.len() }

// The values of auth_stat used here (RFC 5531 section 9).
const (
	authBadCred = 1
	authBadVerf = 3
	authTooWeak = 5
)

// majorFailure is GSS_S_FAILURE (RFC 2744 section 3.9.1).
const majorFailure = 13 << 16

func deny(stat uint32, format string, args ...any) error {
	return &oncrpc.AuthError{Stat: stat, Why: fmt.Sprintf(format, args...)}
}

// Admit implements oncrpc.Guard.
func (s *Server) Admit(q *transport.Request, a oncrpc.Auth) (oncrpc.Admission, error) {
	c, err := ParseCredential(a.Cred)
	if err != nil {
		return nil, deny(authBadCred, "%v", err)
	}
	if c.Proc == ProcInit || c.Proc == ProcContinueInit {
		return s.create(q, &c, a.VerfFlavor)
	}
	return s.admit(q, &c, a)
}

// create makes a context (RFC 2203 section 5.2).
func (s *Server) create(q *transport.Request, c *Credential, verf uint32) (oncrpc.Admission, error) {
	switch {
	case q.Proc != 0 || len(c.Handle) > 0 && c.Proc == ProcInit:
		return nil, deny(authBadCred, "creation of a context with procedure %d and a handle of %d bytes", q.Proc, len(c.Handle))
	case verf != transport.FlavorNone:
		return nil, deny(authBadVerf, "creation of a context with a verifier of flavor %d", verf)
	case c.Proc == ProcContinueInit:
		// Accept takes one token for a context.
		return nil, deny(CredProblem, "no creation of a context to continue")
	}
	token := q.Args.Opaque(MaxToken)
	if q.Args.End() != nil {
		return &creation{}, nil // what is wrong with the arguments is the reply
	}
	reply, tokens, who, err := s.cfg.Acceptor.Accept(token)
	if err != nil {
		s.cfg.Log.Info(fmt.Sprintf("%s: no security context: %v", q.Peer, err))
		return &creation{res: InitResult{Major: majorFailure, Token: reply}}, nil
	}
	x := &accepted{tokens: tokens, who: who.String(), made: s.cfg.now()}
	rand.Read(x.handle[:]) // never fails
	s.contexts.add(x, s.cfg.now())
	s.cfg.Log.Debug(fmt.Sprintf("%s: security context of %s until %v", q.Peer, x.who, tokens.Expires()))
	return &creation{tokens: tokens, res: InitResult{Handle: x.handle[:], Major: Complete, Window: windowSize, Token: reply}}, nil
}

// admit checks a call in a context (RFC 2203 section 5.3.3).
func (s *Server) admit(q *transport.Request, c *Credential, a oncrpc.Auth) (oncrpc.Admission, error) {
	x := s.contexts.get(c.Handle)
	if x == nil {
		return nil, deny(CredProblem, "no such context")
	}
	if c.Seq >= MaxSeq {
		return nil, deny(ContextProblem, "sequence number %#x", c.Seq)
	}
	if a.VerfFlavor != transport.FlavorGSS {
		return nil, deny(authBadVerf, "verifier of flavor %d", a.VerfFlavor)
	}
	if err := x.tokens.VerifyMIC(a.Signed, a.Verf); err != nil {
		return nil, deny(CredProblem, "%v", err)
	}
	now := s.cfg.now()
	if !now.Before(x.tokens.Expires()) {
		s.contexts.remove(x)
		return nil, deny(ContextProblem, "the context of %s has expired", x.who)
	}
	if c.Proc == ProcDestroy && q.Proc != 0 {
		return nil, deny(authBadCred, "destruction of a context with procedure %d", q.Proc)
	}
	flavor := s.cfg.Flavors[c.Service]
	if flavor == 0 {
		return nil, deny(authTooWeak, "service %d is not served", c.Service)
	}
	// Only now: what others have made must not use up the client's numbers.
	if !x.window.take(c.Seq) {
		s.cfg.Log.Debug(fmt.Sprintf("%s: sequence number %d of %s was used, or is below the window", q.Peer, c.Seq, x.who))
		return nil, oncrpc.ErrDiscard
	}
	x.used.Store(now.UnixNano())
	q.Security, q.Principal = flavor, x.who
	p := protection{tokens: x.tokens, service: c.Service, seq: c.Seq}
	if c.Proc == ProcDestroy {
		return &destruction{data: data{p}, s: s, x: x}, nil
	}
	return &data{p}, nil
}

// creation is a call that makes a context, or was to. tokens is nil without one.
type creation struct {
	tokens Tokens
	res    InitResult
}

// AppendVerifier implements oncrpc.Admission: what is signed is the window (RFC 2203
// section 5.2.3.1).
func (c *creation) AppendVerifier(w *xdr.Writer) {
	if c.tokens == nil {
		w.Uint32(transport.FlavorNone)
		w.Uint32(0)
		return
	}
	appendVerifier(w, c.tokens, c.res.Window)
}

// Protection implements oncrpc.Admission.
func (c *creation) Protection() transport.Protection { return nil }

// Serve implements oncrpc.Admission.
func (c *creation) Serve(_ context.Context, q *transport.Request, _ transport.Handler) transport.AcceptStat {
	c.res.Append(q.Reply)
	return transport.Success
}

// data is a call in a context.
type data struct{ protection }

// AppendVerifier implements oncrpc.Admission (RFC 2203 section 5.3.3.2).
func (d *data) AppendVerifier(w *xdr.Writer) { appendVerifier(w, d.tokens, d.seq) }

// Protection implements oncrpc.Admission.
func (d *data) Protection() transport.Protection {
	if d.service == None {
		return nil
	}
	return &d.protection
}

// Serve implements oncrpc.Admission.
func (d *data) Serve(ctx context.Context, q *transport.Request, h transport.Handler) transport.AcceptStat {
	return h.Serve(ctx, q)
}

// destruction is a call that ends a context (RFC 2203 section 5.4).
type destruction struct {
	data
	s *Server
	x *accepted
}

// Protection implements oncrpc.Admission. The arguments are void, which clients protect
// or do not: the header, which is authenticated, says everything.
func (d *destruction) Protection() transport.Protection { return nil }

// Serve implements oncrpc.Admission.
func (d *destruction) Serve(context.Context, *transport.Request, transport.Handler) transport.AcceptStat {
	d.s.contexts.remove(d.x)
	return transport.Success
}

// appendVerifier encodes a verifier made for one number.
func appendVerifier(w *xdr.Writer, t Tokens, n uint32) {
	var num, buf [64]byte
	msg := append(num[:0], byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	w.Uint32(transport.FlavorGSS)
	w.Opaque(t.AppendMIC(buf[:0], msg))
}
