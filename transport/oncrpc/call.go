package oncrpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Version is the RPC version spoken, the only one (RFC 5531 section 9).
const Version = 2

// msg_type of RFC 5531 section 9.
const (
	msgCall  = 0
	msgReply = 1
)

// AppendCall encodes c under xid: the header with credential and verifier (RFC
// 5531 section 9), and the arguments. Payloads are marked, unless the credential
// protects the arguments, whose part they then are.
func AppendCall(w *xdr.Writer, xid uint32, c *transport.Call) {
	start := len(w.Bytes())
	w.Uint32(xid)
	w.Uint32(msgCall)
	w.Uint32(Version)
	w.Uint32(c.Prog)
	w.Uint32(c.Vers)
	w.Uint32(c.Proc)
	if c.Cred == nil {
		transport.AuthNone{}.Append(w, start)
	} else {
		c.Cred.Append(w, start)
		if p := c.Cred.Protection(); p != nil {
			p.Protect(w, flatArgs(c))
			return
		}
	}
	if c.Args != nil {
		c.Args(w)
	}
}

// flatArgs encodes the arguments with the payloads in place.
func flatArgs(c *transport.Call) []byte {
	if c.Args == nil {
		return nil
	}
	var w xdr.Writer
	w.Reset(nil, c.Send)
	c.Args(&w)
	return w.AppendFlat(make([]byte, 0, w.Len()), 0)
}

// PeekXID returns the transaction id of the message b, and whether it is a reply.
// ok is false if it is neither a call nor a reply.
func PeekXID(b []byte) (xid uint32, reply, ok bool) {
	if len(b) < 8 {
		return 0, false, false
	}
	kind := binary.BigEndian.Uint32(b[4:])
	return binary.BigEndian.Uint32(b), kind == msgReply, kind <= msgReply
}

// CallHeader is what precedes the arguments in a call.
type CallHeader struct {
	XID, RPCVers     uint32
	Prog, Vers, Proc uint32
	// Flavor is that of the credential; Sys is set with transport.FlavorSys, but
	// for the machine's name.
	Flavor uint32
	Sys    transport.AuthSys
}

// AuthError is the reason to deny a call for its credential or verifier; Stat is
// the auth_stat of the reply (RFC 5531 section 9).
type AuthError struct {
	Stat uint32
	Why  string
}

func (e *AuthError) Error() string { return "call refused: " + e.Why }

// The values of auth_stat used here.
const (
	authBadCred      = 1
	authRejectedCred = 2
	authBadVerf      = 3
	authTooWeak      = 5
)

// ErrRPCVersion: the call is of an RPC version other than 2.
var ErrRPCVersion = errors.New("RPC version not supported")

// errGuarded: only a Guard serves calls of this flavor.
var errGuarded = &AuthError{authBadCred, "RPCSEC_GSS is not served"}

// errTooWeak: a handler returned transport.TooWeak.
var errTooWeak = &AuthError{authTooWeak, "stronger security is needed"}

// ParseCall decodes a call's header and leaves r at the arguments. When it
// fails with ErrRPCVersion or an *AuthError, XID is set and the call must be denied;
// any other error wraps transport.ErrProtocol.
func ParseCall(r *xdr.Reader) (CallHeader, error) {
	var h CallHeader
	h.XID = r.Uint32()
	kind := r.Uint32()
	h.RPCVers = r.Uint32()
	if r.Err() == nil && kind != msgCall {
		r.Fail("message type %d, want a call", kind)
	}
	if r.Err() != nil {
		return h, malformed(r.Err())
	}
	if h.RPCVers != Version {
		return h, ErrRPCVersion
	}
	h.Prog = r.Uint32()
	h.Vers = r.Uint32()
	h.Proc = r.Uint32()
	h.Flavor = r.Uint32()
	body := r.Opaque(transport.MaxAuthBody)
	verf := r.Uint32()
	r.Opaque(transport.MaxAuthBody)
	if r.Err() != nil {
		return h, malformed(r.Err())
	}
	switch h.Flavor {
	case transport.FlavorNone:
	case transport.FlavorSys:
		if err := parseSys(body, &h.Sys); err != nil {
			return h, err
		}
	case transport.FlavorShort:
		return h, &AuthError{authRejectedCred, "AUTH_SHORT was never handed out"}
	case transport.FlavorGSS:
		return h, errGuarded
	default:
		return h, &AuthError{authBadCred, fmt.Sprintf("flavor %d is not supported", h.Flavor)}
	}
	if verf != transport.FlavorNone {
		return h, &AuthError{authBadVerf, fmt.Sprintf("verifier of flavor %d", verf)}
	}
	return h, nil
}

// parseSys decodes the body of AUTH_SYS credentials (RFC 5531 appendix A).
func parseSys(body []byte, c *transport.AuthSys) error {
	var r xdr.Reader
	r.Reset(body, nil)
	r.Uint32() // stamp
	r.Opaque(transport.MaxMachine)
	c.UID = r.Uint32()
	c.GID = r.Uint32()
	if n := r.Count(transport.MaxGIDs); n > 0 {
		c.GIDs = make([]uint32, n)
		for i := range c.GIDs {
			c.GIDs[i] = r.Uint32()
		}
	}
	if err := r.End(); err != nil {
		*c = transport.AuthSys{}
		return &AuthError{authBadCred, err.Error()}
	}
	return nil
}

func malformed(err error) error { return fmt.Errorf("%w: %w", transport.ErrProtocol, err) }
