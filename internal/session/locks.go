package session

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	nlmwire "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
	"github.com/rdmafs/rdmafs/transport"
)

// newLocks is what takes locks at the server, nil if all are local to the mount. It
// does not connect before the first lock.
func (s *Session) newLocks() *nlm.Client {
	o := &s.cfg.Options
	if posix, flock := o.ServerLocks(); !posix && !flock {
		return nil
	}
	dir, err := control.Directory()
	if err != nil {
		s.cfg.log().Warn(fmt.Sprintf("locks: should this process be killed, the server keeps them: %v", err))
	}
	server := s.addr.Addr()
	return nlm.New(nlm.Config{
		Host: s.cfg.Source.Host,
		Addr: server,
		Port: func(ctx context.Context) (uint16, error) {
			if o.NLMPort != 0 {
				return o.NLMPort, nil
			}
			port, err := nfs3.Port(ctx, server, nlmwire.Program, nlmwire.Version, s.cfg.dialTCP)
			if err != nil {
				return 0, fmt.Errorf("rpcbind: %w", err)
			}
			return port, nil
		},
		Probe: func(ctx context.Context) error {
			return s.caller.Call(ctx, &transport.Call{Prog: wire.NFSProgram, Vers: wire.NFSVersion, Proc: wire.ProcNull})
		},
		Rpcbind:     rpcbind.Socket,
		Dialer:      func(to netip.AddrPort) (transport.Dialer, error) { return providers.TCPDialer(to, o) },
		Reserved:    providers.ReservedPort(o),
		MachineName: machineName(),
		Timeo:       o.Timeo,
		Retrans:     o.Retrans,
		Soft:        o.Soft,
		JournalDir:  dir,
		Account:     s.cfg.account,
		Log:         s.cfg.log(),
	})
}

// watched has the locks of version 3 recovered when a connection of NFS was lost: the server may
// have restarted.
func (s *Session) watched(d transport.Dialer) transport.Dialer {
	if posix, flock := s.cfg.Options.ServerLocks(); !posix && !flock || s.cfg.Options.Minors() != nil {
		return d
	}
	return &nlm.Watched{Dialer: d, Lost: func() {
		if locks := s.locks.Load(); locks != nil {
			locks.Restarted()
		}
	}}
}

// lockCheck is the question to rpcbind whether the server has a lock manager. It is
// asked while the export is mounted, so that it costs a mount no time.
type lockCheck struct {
	cancel context.CancelFunc // nil without a check
	done   chan struct{}
	err    error // once done is closed
}

// lockCheckGrace is how much longer a mount waits for rpcbind than it takes anyway.
// What comes later is only logged.
const lockCheckGrace = time.Second

// checkLocks starts the check. With nlmport= rpcbind is not needed.
func (s *Session) checkLocks(c *nlm.Client) {
	if s.cfg.Options.NLMPort != 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.check = lockCheck{cancel: cancel, done: make(chan struct{})}
	go s.runCheck(ctx, c)
}

func (s *Session) runCheck(ctx context.Context, c *nlm.Client) {
	defer close(s.check.done)
	s.check.err = c.Check(ctx)
}

// awaitCheck waits for the check, but not for long.
func (s *Session) awaitCheck() {
	if s.check.cancel == nil {
		return
	}
	t := time.NewTimer(lockCheckGrace)
	defer t.Stop()
	select {
	case <-s.check.done:
	case <-t.C:
	}
}

// stopCheck ends the check.
func (s *Session) stopCheck() {
	if s.check.cancel != nil {
		s.check.cancel()
		<-s.check.done
	}
}

// LockNote says why locks will fail, as far as that is known; "" if nothing is.
func (s *Session) LockNote() string {
	if s.check.cancel == nil {
		return ""
	}
	select {
	case <-s.check.done:
		if s.check.err != nil {
			return s.check.err.Error()
		}
	default:
	}
	return ""
}

// LockWait says how locks that others have are waited for, as nlm.Client.LockWait does;
// "" if all locks are local to the mount.
func (s *Session) LockWait() string {
	if locks := s.locks.Load(); locks != nil {
		return locks.LockWait()
	}
	if posix, flock := s.cfg.Options.ServerLocks(); posix || flock {
		return "polling"
	}
	return ""
}
