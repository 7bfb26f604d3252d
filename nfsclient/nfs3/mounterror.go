package nfs3

import (
	"errors"
	"strings"

	"github.com/rdmafs/rdmafs/transport"
)

// Failure says which step of a mount failed.
type Failure uint8

const (
	// BadConfig: Config is not valid.
	BadConfig Failure = iota + 1
	// RpcbindUnreachable: no answer from rpcbind.
	RpcbindUnreachable
	// MountdMissing: rpcbind knows no mountd of version 3 over TCP.
	MountdMissing
	// MountdUnreachable: no answer from mountd.
	MountdUnreachable
	// NoExport: the server has no such directory, or does not export it.
	NoExport
	// NotPermitted: the server does not let this client mount it.
	NotPermitted
	// NoFlavor: the export requires a security flavor that this client lacks.
	NoFlavor
	// NFSFailed: mounted, but NFS itself does not work.
	NFSFailed
)

// MountError says why an export could not be mounted and what may help.
type MountError struct {
	Failure      Failure
	Host, Export string
	// Why is what happened, Hint what to do, if anything.
	Why, Hint string
	Err       error
	// Flavors are those that the export can be used with, in the order of the server's
	// preference, with NoFlavor.
	Flavors []uint32
}

func (e *MountError) Error() string {
	var b strings.Builder
	b.WriteString(e.Host + ":" + e.Export + ": " + e.Why)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *MountError) Unwrap() error { return e.Err }

// OtherVersion is what may help where err says that the server does not have the version of
// NFS that it was asked for, "" for any other error.
func OtherVersion(err error) string {
	var refused *transport.RPCError
	if !errors.As(err, &refused) || refused.Denied || refused.Code != uint32(transport.ProgMismatch) {
		return ""
	}
	if refused.Low >= 4 {
		return "try vers=4"
	}
	return "try vers=3"
}

// authTooWeak is AUTH_TOOWEAK of RFC 5531 section 9.
const authTooWeak = 5

// strongerSecurity is the hint for a server that denies calls for want of security; "" for other errors.
func strongerSecurity(err error) string {
	var refused *transport.RPCError
	if !errors.As(err, &refused) || !refused.Denied || !refused.Auth || refused.Code != authTooWeak {
		return ""
	}
	return "the export demands more than AUTH_SYS in clear text: proto=tcp,xprtsec=tls or xprtsec=mtls encrypts; if it wants Kerberos, its sec= says so"
}
