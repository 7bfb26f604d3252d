package transport

import (
	"errors"
	"fmt"
)

// Fate says whether the server may have executed a call that failed.
type Fate uint8

const (
	// NotSent: no; the call was not sent.
	NotSent Fate = iota + 1
	// Unknown: perhaps; it was sent, and there was no reply.
	Unknown
	// Answered: the server replied; the error says how.
	Answered
)

func (f Fate) String() string {
	switch f {
	case NotSent:
		return "not sent"
	case Unknown:
		return "fate unknown"
	case Answered:
		return "answered"
	}
	return fmt.Sprintf("fate %d", uint8(f))
}

var (
	// ErrClosed: the Caller or Link was closed by its owner.
	ErrClosed = errors.New("transport closed")
	// ErrTimeout: no reply within timeo and retrans on a soft mount.
	ErrTimeout = errors.New("no reply from the server")
	// ErrTimedOut is ErrTimeout of a mount that tells programs so: softerr of nfs(5).
	ErrTimedOut = fmt.Errorf("%w", ErrTimeout)
	// ErrNoCredential: the user of a call has nothing now by which the server would know
	// him; a ticket that is to be fetched, for instance. The call was not sent.
	ErrNoCredential = errors.New("no credential")
	// ErrAwaitCredential is ErrNoCredential of a hard mount: data that was written is kept
	// until there is one.
	ErrAwaitCredential = fmt.Errorf("%w", ErrNoCredential)
	// ErrProtocol: the peer broke the transport's protocol. Errors that wrap
	// it say how.
	ErrProtocol = errors.New("protocol error")
	// ErrReplyBound: the reply may be longer than the call allowed. It may have been
	// executed.
	ErrReplyBound = errors.New("the reply does not fit what was offered for it")
)

// Error is a call's failure.
type Error struct {
	Fate Fate
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%v (%v)", e.Err, e.Fate) }

func (e *Error) Unwrap() error { return e.Err }

// RPCError is a reply that is not an accepted, successful one (RFC 5531
// section 9). It comes wrapped in an Error with fate Answered.
type RPCError struct {
	// Denied is set when reply_stat was MSG_DENIED; Code is then an auth_stat
	// if Auth is set, and RPC_MISMATCH if not. Otherwise Code is an
	// AcceptStat.
	Denied, Auth bool
	Code         uint32
	// Low and High are the versions that the server has, on a mismatch.
	Low, High uint32
}

func (e *RPCError) Error() string {
	switch {
	case e.Denied && e.Auth:
		return fmt.Sprintf("server refused the credentials (auth_stat %d: %s)", e.Code, authStat(e.Code))
	case e.Denied:
		return fmt.Sprintf("server speaks RPC versions %d to %d only", e.Low, e.High)
	}
	switch AcceptStat(e.Code) {
	case ProgUnavail:
		return "server does not have this RPC program"
	case ProgMismatch:
		return fmt.Sprintf("server has versions %d to %d of this RPC program only", e.Low, e.High)
	case ProcUnavail:
		return "server does not have this procedure"
	case GarbageArgs:
		return "server could not decode the arguments"
	case SystemErr:
		return "server ran out of memory or the like"
	}
	return fmt.Sprintf("accept_stat %d", e.Code)
}

func authStat(code uint32) string {
	names := [...]string{"ok", "bad credentials", "credentials rejected", "bad verifier", "verifier rejected",
		"stronger security needed", "bad reply verifier", "authentication failed"}
	if int64(code) < int64(len(names)) {
		return names[code]
	}
	return "unknown reason"
}
