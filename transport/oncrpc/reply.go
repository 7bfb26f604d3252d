package oncrpc

import (
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// reply_stat and reject_stat of RFC 5531 section 9.
const (
	msgAccepted = 0
	msgDenied   = 1
	rpcMismatch = 0
	authError   = 1
)

const (
	// ReplyHeader is the length of an accepted, successful reply's header
	// when its verifier is empty, as it is for AUTH_NONE and AUTH_SYS.
	ReplyHeader = 24
	// MaxReplyHeader bounds what a reply has besides the results: a verifier of
	// 400 bytes, and the range of versions of a mismatch.
	MaxReplyHeader = ReplyHeader + transport.MaxAuthBody + 8
)

// ReplyBound bounds the length of the reply to c, Recv data not counted.
func ReplyBound(c *transport.Call) int {
	n := MaxReplyHeader + max(c.ReplyMax, 0)
	if p := c.Protection(); p != nil {
		n += p.Overhead()
	}
	return n
}

// DecodeReply decodes the reply to c, which was sent under xid, and runs
// c.Result on its results. Every error is a *transport.Error of fate Answered.
// It wraps an RPCError if the call was denied or not executed, wraps
// transport.ErrProtocol if the reply is malformed or cannot be trusted, and is what
// c.Result returned otherwise.
func DecodeReply(r *xdr.Reader, xid uint32, c *transport.Call) error {
	if err := decodeReply(r, xid, c); err != nil {
		return &transport.Error{Fate: transport.Answered, Err: err}
	}
	return nil
}

func decodeReply(r *xdr.Reader, xid uint32, c *transport.Call) error {
	if got := r.Uint32(); r.Err() == nil && got != xid {
		r.Fail("reply to %#x, want %#x", got, xid)
	}
	if kind := r.Uint32(); r.Err() == nil && kind != msgReply {
		r.Fail("message type %d, want a reply", kind)
	}
	switch stat := r.Uint32(); {
	case r.Err() != nil:
	case stat == msgDenied:
		return denied(r)
	case stat != msgAccepted:
		r.Fail("reply_stat %d", stat)
	}
	flavor, verifier := r.Uint32(), r.Opaque(transport.MaxAuthBody)
	stat := r.Uint32()
	if r.Err() != nil {
		return malformed(r.Err())
	}
	if c.Cred != nil {
		if err := c.Cred.Verify(flavor, verifier); err != nil {
			return fmt.Errorf("%w: verifier of the reply: %w", transport.ErrProtocol, err)
		}
	}
	if stat != uint32(transport.Success) {
		e := &transport.RPCError{Code: stat}
		if stat == uint32(transport.ProgMismatch) {
			e.Low, e.High = r.Uint32(), r.Uint32()
		}
		return refusal(r, e)
	}
	if p := c.Protection(); p != nil {
		body := append([]byte(nil), r.Fixed(r.Remaining())...)
		results, err := p.Unprotect(body)
		if err != nil {
			return fmt.Errorf("%w: protected results: %w", transport.ErrProtocol, err)
		}
		r = new(xdr.Reader)
		r.Reset(results, c.Recv)
	}
	var err error
	if c.Result != nil {
		err = c.Result(r)
	}
	if r.Err() != nil {
		return malformed(r.Err())
	}
	if err == nil {
		return nil
	}
	if bad := (*xdr.Error)(nil); errors.As(err, &bad) && !errors.Is(err, transport.ErrProtocol) {
		return malformed(err)
	}
	return err
}

// denied decodes a rejected_reply (RFC 5531 section 9).
func denied(r *xdr.Reader) error {
	e := &transport.RPCError{Denied: true}
	switch why := r.Uint32(); why {
	case rpcMismatch:
		e.Low, e.High = r.Uint32(), r.Uint32()
	case authError:
		e.Auth, e.Code = true, r.Uint32()
	default:
		r.Fail("reject_stat %d", why)
	}
	return refusal(r, e)
}

func refusal(r *xdr.Reader, e *transport.RPCError) error {
	if r.Err() != nil {
		return malformed(fmt.Errorf("in a refusal: %w", r.Err()))
	}
	return e
}
