package rpcsecgss

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Flavor is RPCSEC_GSS among the flavors of authentication, and Version the one of it
// that is spoken (RFC 2203 section 5).
const (
	Flavor  uint32 = 6
	Version uint32 = 1
)

// MaxSeq bounds sequence numbers: from there on a context is not to be used (RFC 2203
// section 5.3.3.1).
const MaxSeq uint32 = 0x80000000

// Values of auth_stat (RFC 2203 section 5.3.3.3): the server knows the context no more,
// or finds fault with it.
const (
	CredProblem    uint32 = 13
	ContextProblem uint32 = 14
)

// Bounds of what a peer may send: a handle must leave room for the rest of a credential's
// body.
const (
	credFixed = 5 * 4
	MaxHandle = transport.MaxAuthBody - credFixed
	MaxToken  = 64 << 10
)

// Proc is rpc_gss_proc_t of RFC 2203 section 5.2.1: what a call is for.
type Proc uint32

const (
	ProcData         Proc = 0
	ProcInit         Proc = 1
	ProcContinueInit Proc = 2
	ProcDestroy      Proc = 3
)

// Service is rpc_gss_service_t: what is protected besides the call's header.
type Service uint32

const (
	None      Service = 1
	Integrity Service = 2
	Privacy   Service = 3
)

func (s Service) String() string {
	switch s {
	case None:
		return "krb5"
	case Integrity:
		return "krb5i"
	case Privacy:
		return "krb5p"
	}
	return fmt.Sprintf("service %d", uint32(s))
}

// Credential is the body of a credential (rpc_gss_cred_vers_1_t).
type Credential struct {
	Proc    Proc
	Seq     uint32
	Service Service
	Handle  []byte
}

// Append encodes the flavor and the body.
func (c *Credential) Append(w *xdr.Writer) {
	w.Uint32(Flavor)
	w.Uint32(uint32(credFixed + len(c.Handle) + xdr.Pad(len(c.Handle))))
	w.Uint32(Version)
	w.Uint32(uint32(c.Proc))
	w.Uint32(c.Seq)
	w.Uint32(uint32(c.Service))
	w.Opaque(c.Handle)
}

// ParseCredential decodes a body. The handle is a part of it.
func ParseCredential(body []byte) (Credential, error) {
	var r xdr.Reader
	r.Reset(body, nil)
	version := r.Uint32()
	c := Credential{Proc: Proc(r.Uint32()), Seq: r.Uint32(), Service: Service(r.Uint32()), Handle: r.Opaque(MaxHandle)}
	if r.Err() == nil && version != Version {
		r.Fail("RPCSEC_GSS version %d", version)
	}
	if r.Err() == nil && c.Proc > ProcDestroy {
		r.Fail("RPCSEC_GSS procedure %d", c.Proc)
	}
	if r.Err() == nil && (c.Service < None || c.Service > Privacy) {
		r.Fail("RPCSEC_GSS service %d", c.Service)
	}
	return c, r.End()
}

// InitResult is rpc_gss_init_res of RFC 2203 section 5.2.3.1.
type InitResult struct {
	Handle       []byte
	Major, Minor uint32
	Window       uint32
	Token        []byte
}

// The values of Major that are no error (RFC 2743 section 1.2.1.1).
const (
	Complete       uint32 = 0
	ContinueNeeded uint32 = 1
)

// Append encodes the result.
func (i *InitResult) Append(w *xdr.Writer) {
	w.Opaque(i.Handle)
	w.Uint32(i.Major)
	w.Uint32(i.Minor)
	w.Uint32(i.Window)
	w.Opaque(i.Token)
}

// ParseInitResult decodes a result. Handle and Token are parts of what r reads.
func ParseInitResult(r *xdr.Reader) (InitResult, error) {
	i := InitResult{Handle: r.Opaque(MaxHandle), Major: r.Uint32(), Minor: r.Uint32(), Window: r.Uint32(), Token: r.Opaque(MaxToken)}
	return i, r.End()
}
