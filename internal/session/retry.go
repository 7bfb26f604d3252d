package session

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// The time between two attempts to reach a server that is away: it doubles.
const (
	minRetryInterval = time.Second
	maxRetryInterval = 10 * time.Second
)

// OpenWithin is Open that goes on trying while the server cannot be reached (Away),
// until patience is over: at least once, and no attempt begins afterwards. away is told
// of the first failure that is not the last. The error is that of the last attempt.
func OpenWithin(ctx context.Context, cfg Config, kernel cache.Kernel, patience time.Duration, away func(error)) (*Session, error) {
	begin := time.Now()
	for interval := minRetryInterval; ; interval = min(2*interval, maxRetryInterval) {
		s, err := Open(ctx, cfg, kernel)
		if err == nil || !Away(err, cfg.Options.Patient()) || ctx.Err() != nil || time.Since(begin)+interval > patience {
			return s, err
		}
		if away != nil {
			away(err)
			away = nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Away reports whether a failed mount may succeed when it is tried again: nobody
// answered, or what listens at the server is not there yet. patient: who mounts has asked to wait, so that what
// looks like a mistake, like a certificate's file that is not there, is taken for what comes later.
func Away(err error, patient bool) bool {
	if transient, starting := krb5.Passes(err); transient || starting && patient {
		return true
	}
	var refused *nfs3.MountError
	if errors.As(err, &refused) {
		switch refused.Failure {
		case nfs3.RpcbindUnreachable, nfs3.MountdMissing, nfs3.MountdUnreachable:
			return true
		}
		return false
	}
	if transient, starting, ok := providers.EncryptionPasses(err); ok {
		return transient || starting && patient
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return name.IsTemporary || name.IsTimeout
	}
	var unreached *unreachableError
	return errors.As(err, &unreached) && noAnswer(err)
}

// noAnswer reports whether an attempt to connect has failed for want of somebody to
// answer it, or of a way there, and not for what this host lacks.
func noAnswer(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ETIMEDOUT,
		syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ENETDOWN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
