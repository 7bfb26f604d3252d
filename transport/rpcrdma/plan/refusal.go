package plan

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// Refusal says why a call is not carried out, and with what error of version 2
// it is answered; version 1 has ErrChunk for all of them. It wraps
// transport.ErrProtocol.
type Refusal struct {
	Code  wire.ErrCode
	Fault wire.Fault
	Why   string
}

func (e *Refusal) Error() string { return e.Why }

func (e *Refusal) Unwrap() error { return transport.ErrProtocol }

func Refuse(code wire.ErrCode, fault wire.Fault, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Fault: fault, Why: fmt.Sprintf(format, args...)}
}

// BadChunk refuses a call whose chunks make no sense.
func BadChunk(format string, args ...any) error {
	return Refuse(wire.ErrBadXDR, wire.Fault{}, format, args...)
}
