package transport

import "github.com/rdmafs/rdmafs/transport/xdr"

// Flavors of authentication (RFC 5531 section 8.2).
const (
	FlavorNone  uint32 = 0
	FlavorSys   uint32 = 1
	FlavorShort uint32 = 2
	// FlavorGSS is RPCSEC_GSS (RFC 2203 section 5).
	FlavorGSS uint32 = 6
)

// Bounds of RFC 5531: section 8.2 for the bodies of credentials and verifiers,
// appendix A for AUTH_SYS.
const (
	MaxAuthBody = 400
	MaxMachine  = 255
	MaxGIDs     = 16
)

// Cred authenticates a call to the server and the reply to the client.
//
// The methods are called one after the other, for one transmission at a time:
// Append, then Verify and Protection's methods for the reply. A Cred with state
// of a transmission, such as the sequence number of RPCSEC_GSS, therefore
// belongs to one call; one without may serve any number of calls at once.
type Cred interface {
	// Append encodes the credential and the verifier of one transmission. The
	// message begins at w.Bytes()[start:]; what stands there up to the end of
	// the credential is what a verifier of RPCSEC_GSS signs (RFC 2203 section
	// 5.3.1). Append may run more often than the call is transmitted: what
	// counts is the last time.
	Append(w *xdr.Writer, start int)
	// Verify checks the verifier of an accepted reply, before anything else in
	// the reply is used. body is borrowed, and at most MaxAuthBody bytes.
	Verify(flavor uint32, body []byte) error
	// Protection says how arguments and results are transformed. It is nil
	// where they travel as they are.
	Protection() Protection
}

// Protection transforms the arguments and results of calls: RPCSEC_GSS with
// integrity or privacy (RFC 2203 section 5.3.2). The data of such a call is part
// of what is transformed, so that none of it is placed directly (RFC 8166
// section 8.2.2.3), and it is copied.
type Protection interface {
	// Protect appends what stands in the call in place of args, which it
	// borrows and may change.
	Protect(w *xdr.Writer, args []byte)
	// Unprotect returns the results that body stands for, or why body cannot be
	// trusted. Nobody else has body: Unprotect may decrypt in place and return a
	// part of it.
	Unprotect(body []byte) ([]byte, error)
	// Overhead bounds how much longer Unprotect's argument is than its result.
	Overhead() int
}

// AuthNone is the flavor AUTH_NONE (RFC 5531 section 10.1).
type AuthNone struct{}

// Append implements Cred.
func (AuthNone) Append(w *xdr.Writer, _ int) {
	w.Uint32(FlavorNone)
	w.Uint32(0)
	appendNoVerifier(w)
}

// Verify implements Cred: the reply is not authenticated.
func (AuthNone) Verify(uint32, []byte) error { return nil }

// Protection implements Cred.
func (AuthNone) Protection() Protection { return nil }

// AuthSys is the flavor AUTH_SYS (RFC 5531 appendix A).
type AuthSys struct {
	// Machine is the name of the client's host. What exceeds MaxMachine bytes
	// is left out.
	Machine  string
	UID, GID uint32
	// GIDs are the supplementary groups. Those beyond MaxGIDs are left out.
	GIDs []uint32
}

// Append implements Cred. The stamp is arbitrary; a constant keeps the bytes of
// a retransmission the same, of which the duplicate request caches of servers
// make a checksum.
func (a *AuthSys) Append(w *xdr.Writer, _ int) {
	machine := a.Machine[:min(len(a.Machine), MaxMachine)]
	gids := a.GIDs[:min(len(a.GIDs), MaxGIDs)]
	w.Uint32(FlavorSys)
	w.Uint32(uint32(20 + len(machine) + xdr.Pad(len(machine)) + 4*len(gids)))
	w.Uint32(0)
	w.String(machine)
	w.Uint32(a.UID)
	w.Uint32(a.GID)
	w.Uint32(uint32(len(gids)))
	for _, g := range gids {
		w.Uint32(g)
	}
	appendNoVerifier(w)
}

// Verify implements Cred: the reply is not authenticated. A server may offer an
// AUTH_SHORT credential in it, which is not used.
func (a *AuthSys) Verify(uint32, []byte) error { return nil }

// Protection implements Cred.
func (a *AuthSys) Protection() Protection { return nil }

func appendNoVerifier(w *xdr.Writer) {
	w.Uint32(FlavorNone)
	w.Uint32(0)
}
