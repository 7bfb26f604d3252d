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

// Flavours of authentication (RFC 5531 section 8.2).
const (
	AuthNone  = 0
	AuthSys   = 1
	AuthShort = 2
)

// Bounds of RFC 5531: section 8.2 for the opaque bodies, appendix A for
// AUTH_SYS.
const (
	maxAuthBody = 400
	maxMachine  = 255
	maxGIDs     = 16
)

// callFixed is a call's header up to the credentials' flavour.
const callFixed = 24

// AppendCall encodes c under xid: the header, the credentials, an empty
// verifier (RFC 5531 section 9) and the arguments. machine names this host in
// AUTH_SYS credentials; what exceeds 255 bytes of it, or 16 groups, is left out.
func AppendCall(w *xdr.Writer, xid uint32, c *transport.Call, machine string) {
	w.Uint32(xid)
	w.Uint32(msgCall)
	w.Uint32(Version)
	w.Uint32(c.Prog)
	w.Uint32(c.Vers)
	w.Uint32(c.Proc)
	if c.Cred.Sys {
		appendSys(w, &c.Cred, machine)
	} else {
		w.Uint32(AuthNone)
		w.Uint32(0)
	}
	w.Uint32(AuthNone)
	w.Uint32(0)
	if c.Args != nil {
		c.Args(w)
	}
}

// appendSys encodes AUTH_SYS credentials (RFC 5531 appendix A). The stamp is
// arbitrary; a constant keeps a resent call's bytes the same, which servers'
// duplicate request caches checksum.
func appendSys(w *xdr.Writer, c *transport.Cred, machine string) {
	machine, gids := clip(c, machine)
	w.Uint32(AuthSys)
	w.Uint32(uint32(sysLen(machine, gids)))
	w.Uint32(0)
	w.String(machine)
	w.Uint32(c.UID)
	w.Uint32(c.GID)
	w.Uint32(uint32(len(gids)))
	for _, g := range gids {
		w.Uint32(g)
	}
}

func clip(c *transport.Cred, machine string) (string, []uint32) {
	return machine[:min(len(machine), maxMachine)], c.GIDs[:min(len(c.GIDs), maxGIDs)]
}

func sysLen(machine string, gids []uint32) int {
	return 20 + len(machine) + xdr.Pad(len(machine)) + 4*len(gids)
}

// CallHeaderLen is the number of bytes that AppendCall encodes before the
// arguments.
func CallHeaderLen(c *transport.Call, machine string) int {
	n := callFixed + 8 + 8
	if c.Cred.Sys {
		n += sysLen(clip(&c.Cred, machine))
	}
	return n
}

// PeekXID tells of a message, without reading it, its transaction id and
// whether it is a reply. ok is false when it is neither call nor reply.
func PeekXID(b []byte) (xid uint32, reply, ok bool) {
	if len(b) < 8 {
		return 0, false, false
	}
	kind := binary.BigEndian.Uint32(b[4:])
	return binary.BigEndian.Uint32(b), kind == msgReply, kind <= msgReply
}

// CallHeader is what stands in a call before the arguments.
type CallHeader struct {
	XID, RPCVers     uint32
	Prog, Vers, Proc uint32
	// Cred is set for AUTH_NONE and AUTH_SYS.
	Cred   transport.Cred
	Flavor uint32
}

// AuthError is a call refused for its credentials or verifier; Stat is the
// auth_stat to answer with (RFC 5531 section 9).
type AuthError struct {
	Stat uint32
	Why  string
}

func (e *AuthError) Error() string { return "call refused: " + e.Why }

// The values of auth_stat that are of use here.
const (
	authBadCred      = 1
	authRejectedCred = 2
	authBadVerf      = 3
)

// ErrRPCVersion: the call is of an RPC version other than 2.
var ErrRPCVersion = errors.New("RPC version not supported")

// ParseCall decodes a call's header and leaves r at the arguments. When it
// fails with ErrRPCVersion or an *AuthError, XID is known and the call can be
// answered; any other error wraps transport.ErrProtocol.
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
	body := r.Opaque(maxAuthBody)
	if r.Err() != nil {
		return h, malformed(r.Err())
	}
	verf := r.Uint32()
	r.Opaque(maxAuthBody)
	if r.Err() != nil {
		return h, malformed(r.Err())
	}
	switch h.Flavor {
	case AuthNone:
	case AuthSys:
		if err := parseSys(body, &h.Cred); err != nil {
			return h, err
		}
	case AuthShort:
		return h, &AuthError{authRejectedCred, "AUTH_SHORT was never handed out"}
	default:
		return h, &AuthError{authBadCred, fmt.Sprintf("flavour %d is not supported", h.Flavor)}
	}
	if verf != AuthNone {
		return h, &AuthError{authBadVerf, fmt.Sprintf("verifier of flavour %d", verf)}
	}
	return h, nil
}

// parseSys decodes the body of AUTH_SYS credentials (RFC 5531 appendix A).
func parseSys(body []byte, c *transport.Cred) error {
	var r xdr.Reader
	r.Reset(body, nil, nil)
	r.Uint32() // stamp
	r.Opaque(maxMachine)
	c.UID = r.Uint32()
	c.GID = r.Uint32()
	if n := r.Count(maxGIDs); n > 0 {
		c.GIDs = make([]uint32, n)
		for i := range c.GIDs {
			c.GIDs[i] = r.Uint32()
		}
	}
	if err := r.End(); err != nil {
		*c = transport.Cred{}
		return &AuthError{authBadCred, err.Error()}
	}
	c.Sys = true
	return nil
}

func malformed(err error) error { return fmt.Errorf("%w: %w", transport.ErrProtocol, err) }
