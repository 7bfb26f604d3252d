package requester

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// ReplyError is an RDMA_ERROR sent in answer to a call (RFC 8166 section 4.5;
// the draft, section 7.2.4): the responder could not make sense of the call's
// transport header or chunks, or, in version 2, could not use them. It is
// permanent; what can be mended by sending the call otherwise has been tried. It
// wraps transport.ErrProtocol.
type ReplyError struct {
	// Version is that of the call, of which Code is an error.
	Version uint32
	Code    wire.ErrCode
	Fault   wire.Fault
	// Low and High are the versions that the responder has, with ErrVers.
	Low, High uint32
}

func (e *ReplyError) Error() string {
	if e.Code == wire.ErrVers {
		return fmt.Sprintf("server speaks versions %d to %d of RPC-over-RDMA only", e.Low, e.High)
	}
	if e.Version == wire.Version2 {
		return "server refused the call: " + e.refusal2()
	}
	return "server could not use the chunks of the call"
}

// Is reports whether the reply may not have fit the call's chunks. Version 1 does not say
// what about them was wrong.
func (e *ReplyError) Is(target error) bool {
	if e.Version == wire.Version2 {
		return target == transport.ErrReplyBound && e.Code == wire.ErrReplyResource
	}
	return target == transport.ErrReplyBound && e.Code == wire.ErrChunk
}

func (e *ReplyError) refusal2() string {
	switch e.Code {
	case wire.ErrBadXDR:
		return "it could not parse the transport header (BAD_XDR)"
	case wire.ErrInvalProc:
		return "it does not know the message type (INVAL_PROC)"
	case wire.ErrReadChunks:
		return fmt.Sprintf("it takes %d read chunks (READ_CHUNKS)", e.Fault.Max)
	case wire.ErrWriteChunks:
		return fmt.Sprintf("it takes %d write chunks (WRITE_CHUNKS)", e.Fault.Max)
	case wire.ErrSegments:
		return fmt.Sprintf("it takes chunks of %d segments (SEGMENTS)", e.Fault.Max)
	case wire.ErrWriteResource:
		return fmt.Sprintf("write chunk %d needs %d bytes (WRITE_RESOURCE)", e.Fault.Index, e.Fault.Needed)
	case wire.ErrReplyResource:
		return fmt.Sprintf("its reply needs %d bytes (REPLY_RESOURCE)", e.Fault.Needed)
	case wire.ErrInvalOption:
		return "it does not know the option (INVAL_OPTION)"
	}
	return "it has a problem of its own (SYSTEM)"
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
	// ErrTooLong: a call exceeds what the responder takes, and has no chunks to go by.
	ErrTooLong = errors.New("call exceeds what the client takes")
	// ErrBusyXID: a call was made under the XID of an outstanding one.
	ErrBusyXID = errors.New("a call with this transaction id is under way")
	// errExposed ends a connection without windows, see Caps.RegionKeys.
	errExposed = errors.New("a call was given up while the server could still reach its memory")
)

// failure is the error of a call with the given fate. One that stands for the
// end of the connection, or for our closing the connection in consequence, becomes
// what ended it.
func (r *Requester) failure(fate transport.Fate, err error) error {
	if errors.Is(err, credit.ErrEnded) || errors.Is(err, verbs.ErrClosed) {
		if why := r.conn.Err(); why != nil {
			err = why
		}
	}
	return &transport.Error{Fate: fate, Err: err}
}

// ended is the reason why a wait on ctx and the connection was over.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return credit.ErrEnded
}
