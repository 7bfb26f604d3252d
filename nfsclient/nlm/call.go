package nlm

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// errSilence: the server has not answered in time.
var errSilence = errors.New("no answer")

// contact makes sure that the server was reached once. Until it was, nobody waits
// for it for long: it may have no lock manager, or a firewall may be in between.
func (c *Client) contact(ctx context.Context) error {
	c.mu.Lock()
	known, last, err := c.known, c.failedAt, c.failure
	c.mu.Unlock()
	if known {
		return nil
	}
	if err != nil && time.Since(last) < c.cf.firstContact {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.cf.firstContact)
	defer cancel()
	err = c.caller.Connect(bounded)
	if err == nil {
		err = c.once(bounded, nfsclient.Cred{}, wire.ProcNull, nil, nil, 0)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, transport.ErrClosed) {
		err = c.unreachable(err)
	}
	c.mu.Lock()
	c.known = err == nil
	c.failedAt, c.failure = time.Now(), err
	c.mu.Unlock()
	if err != nil {
		c.complain(err)
	}
	return err
}

// once makes a call, and returns errSilence if it is not answered in time.
func (c *Client) once(ctx context.Context, cr nfsclient.Cred, proc uint32, args, res wire.Message, replyMax int) error {
	call := &transport.Call{Prog: wire.Program, Vers: wire.Version, Proc: proc, ReplyMax: replyMax,
		Cred: &transport.AuthSys{Machine: c.cf.MachineName, UID: cr.UID, GID: cr.GID, GIDs: cr.GIDs}}
	if args != nil {
		call.Args = args.Append
	}
	if res != nil {
		call.Result = func(r *xdr.Reader) error {
			res.Parse(r)
			return r.End()
		}
	}
	bounded, cancel := context.WithTimeout(ctx, c.cf.tryTimeout)
	defer cancel()
	err := c.caller.Call(bounded, call)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil && errors.Is(err, bounded.Err()):
		return errSilence
	}
	if why := c.refusedCall(err); why != nil {
		return why
	}
	return err
}

// until makes a call again until it is answered. On a soft mount it gives up after
// timeo and retrans.
func (c *Client) until(ctx context.Context, cr nfsclient.Cred, proc uint32, args, res wire.Message, replyMax int) error {
	for began := time.Now(); ; {
		err := c.once(ctx, cr, proc, args, res, replyMax)
		if !errors.Is(err, errSilence) {
			return err
		}
		if c.tooLong(began) {
			return transport.ErrTimeout
		}
	}
}

// cookie is of no use, as replies are matched by XID, but servers want one.
func cookie() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return string(b[:])
}

// status turns the status of a LOCK, UNLOCK or CANCEL into an event.
func status(s wire.Stat) event {
	switch s {
	case wire.Granted:
		return evGranted
	case wire.Denied, wire.Blocked:
		return evDenied
	case wire.DeniedGracePeriod:
		return evGrace
	case wire.DeniedNoLocks, wire.Failed:
		return evUnable
	}
	return evRefused
}
