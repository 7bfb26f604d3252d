package session

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// Told is a call of NFS version 4, by the operation that it was made for, and what became of it.
type Told struct {
	Op     wire.Op
	Status wire.Status // if Err is nil
	Err    error
}

// telling is a Caller that tells of each call.
type telling struct {
	*reconnect.Caller
	tell func(Told)
}

// Call implements transport.Caller.
func (c telling) Call(ctx context.Context, call *transport.Call) error {
	err := c.Caller.Call(ctx, call)
	t := Told{Op: wire.Op(call.Counted()), Err: err}
	if call.Status != nil {
		t.Status = wire.Status(*call.Status)
	}
	c.tell(t)
	return err
}

// caller4 is what carries the calls of NFS version 4.
func (s *Session) caller4() transport.Caller {
	if s.cfg.Tell == nil {
		return s.caller
	}
	return telling{s.caller, s.cfg.Tell}
}
