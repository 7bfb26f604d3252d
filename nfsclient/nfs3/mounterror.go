package nfs3

import "strings"

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
