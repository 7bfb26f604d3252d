package rpcsecgss

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// secContext is an established context: of one user, on one link.
type secContext struct {
	handle  []byte
	tokens  Tokens
	service Service
	pace    *pacer
	// renew is when another context is to take its place, and end when it is of no use any
	// more.
	renew, end time.Time
	// prog and vers are whose NULL procedure has made it.
	prog, vers uint32
}

// The time before the end of a ticket at which a new context is made.
const (
	renewEarly = 5 * time.Minute
	renewShare = 10 // at least the tenth part of what is left of it
	// seqMargin is how many sequence numbers are left over.
	seqMargin = 1 << 16
)

// fresh reports whether calls may go on to use c without another in its place; usable
// whether they may at all.
func (c *secContext) fresh(now time.Time) bool {
	return now.Before(c.renew) && c.pace.used() < MaxSeq-seqMargin
}

func (c *secContext) usable(now time.Time) bool {
	return now.Before(c.end) && c.pace.used() < MaxSeq-seqMargin/2
}

// InitError says that the server has refused to make a context (RFC 2203 section 5.2.3.1).
// Major and Minor are those of the GSS-API, Minor the mechanism's.
type InitError struct{ Major, Minor uint32 }

func (e *InitError) Error() string {
	return fmt.Sprintf("the server refuses the security context (GSS major status %#x, minor %#x)", e.Major, e.Minor)
}

// attempt is an initiator's token and what makes a context of the answer. A server may
// close the connection while it makes up its mind, and has the answer at once when it is
// given the same token again: so does knfsd.
type attempt struct {
	token  []byte
	finish func(reply []byte) (Tokens, error)
	begun  time.Time
	tries  int
}

// The bounds of giving a token again: the server has forgotten it after a while, and an
// authenticator of the same time is a replay then.
const (
	maxTries   = 5
	attemptAge = time.Minute
)

// errNoAnswer: the connection was lost before the server had answered an initiator's
// token.
var errNoAnswer = errors.New("no answer to the token")

// establish makes a context over a link, under the transaction id of the call that needs
// it. An error that wraps errNoAnswer leaves a as it is, for the next try.
func establish(ctx context.Context, l transport.Link, xid uint32, c *transport.Call, service Service, a *attempt, now func() time.Time) (*secContext, error) {
	cred := &initial{service: service}
	var res InitResult
	init := &transport.Call{
		Prog: c.Prog, Vers: c.Vers, Cred: cred, NoDirect: true,
		Args: func(w *xdr.Writer) { w.Opaque(a.token) },
		Result: func(r *xdr.Reader) (err error) {
			res, err = ParseInitResult(r)
			res.Handle, res.Token = append([]byte(nil), res.Handle...), append([]byte(nil), res.Token...)
			return err
		},
		// knfsd's token is the AP-REP's 150 bytes; a ticket makes no other one long.
		ReplyMax: 4*4 + 4 + MaxHandle + maxReplyToken,
	}
	if err := l.Exchange(ctx, xid, init); err != nil {
		var te *transport.Error
		if errors.As(err, &te) && te.Fate != transport.Answered {
			return nil, &transport.Error{Fate: transport.NotSent, Err: fmt.Errorf("%w: %w", errNoAnswer, te.Err)}
		}
		return nil, err
	}
	switch {
	case res.Major == ContinueNeeded:
		return nil, notMade(fmt.Errorf("%w: the server wants another round", transport.ErrProtocol))
	case res.Major != Complete:
		return nil, notMade(&InitError{res.Major, res.Minor})
	case res.Window == 0:
		return nil, notMade(fmt.Errorf("%w: sequence window of 0", transport.ErrProtocol))
	}
	tokens, err := a.finish(res.Token)
	if err != nil {
		return nil, notMade(err)
	}
	if err := cred.check(tokens, res.Window); err != nil {
		return nil, notMade(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
	}
	t, end := now(), tokens.Expires()
	left := end.Sub(t)
	early := min(renewEarly, left/renewShare)
	return &secContext{
		handle: res.Handle, tokens: tokens, service: service, pace: newPacer(res.Window),
		renew: end.Add(-early), end: end, prog: c.Prog, vers: c.Vers,
	}, nil
}

// maxReplyToken bounds the acceptor's token in what is offered for the reply to an
// initiation.
const maxReplyToken = 1024

func notMade(err error) error { return &transport.Error{Fate: transport.NotSent, Err: err} }

// destroy tells the server that the context is not needed any more (RFC 2203 section
// 5.4). Whether it is told does not matter much: it forgets contexts by itself.
func (c *secContext) destroy(ctx context.Context, l transport.Link, xid uint32) {
	if c.pace.used() >= MaxSeq {
		return
	}
	_ = l.Exchange(ctx, xid, &transport.Call{Prog: c.prog, Vers: c.vers, Cred: &secured{c: c, proc: ProcDestroy}, NoDirect: true})
}
