package rpcrdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs"
)

// ReplyError is an RDMA_ERROR sent in answer to a call (RFC 8166 section 4.5):
// the responder could not make sense of the call's transport header or chunks.
// It is permanent. It wraps transport.ErrProtocol.
type ReplyError struct {
	Code ErrCode
	// Low and High are the versions that the responder has, with ErrVers.
	Low, High uint32
}

func (e *ReplyError) Error() string {
	if e.Code == ErrVers {
		return fmt.Sprintf("server speaks versions %d to %d of RPC-over-RDMA only", e.Low, e.High)
	}
	return "server could not use the chunks of the call"
}

func (e *ReplyError) Unwrap() error { return transport.ErrProtocol }

// badReplyError says why a reply was refused that belongs to a call. It wraps
// transport.ErrProtocol.
type badReplyError struct{ why string }

func (e *badReplyError) Error() string { return "bad RPC-over-RDMA reply: " + e.why }

func (e *badReplyError) Unwrap() error { return transport.ErrProtocol }

func badReply(format string, args ...any) error {
	return &badReplyError{why: fmt.Sprintf(format, args...)}
}

var (
	// errLinkDead stands for the link's own error where a wait ended with it.
	errLinkDead = errors.New("connection lost")
	errStalled  = errors.New("the peer takes no data")
	errGarbage  = fmt.Errorf("%w: too many messages that answer no call", transport.ErrProtocol)
	// errExposed ends a link without windows, see Caps.RegionKeys.
	errExposed = errors.New("a call was given up while the server could still reach its memory")
	errBusyXID = errors.New("a call with this transaction id is under way")
)

// failure is the error of a call with the given fate. One that stands for the
// end of the link, or for our closing the connection in consequence, becomes
// what ended the link.
func (l *link) failure(fate transport.Fate, err error) error {
	if errors.Is(err, errLinkDead) || errors.Is(err, verbs.ErrClosed) {
		if why := l.Err(); why != nil {
			err = why
		}
	}
	return &transport.Error{Fate: fate, Err: err}
}

// ended tells why a wait on ctx and the link was over.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errLinkDead
}
