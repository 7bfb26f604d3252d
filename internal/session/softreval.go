package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

const (
	// silentWait is how long a revalidation waits for a server that is known to be silent. A walk along
	// a path takes several.
	silentWait = time.Second
	// fullWaitInterval is how often one waits in full nevertheless: the server may be slow, and not silent.
	fullWaitInterval = 10 * time.Minute
)

// revalidations are those of a mount with softreval.
type revalidations struct {
	patience func() reconnect.Patience
	silent   func() bool
	now      func() time.Time
	// full is when the last began that was to wait in full, in nanoseconds since 1970.
	full atomic.Int64
}

// softReval is cache.Config.SoftReval; nil without the option.
func (s *Session) softReval() func(context.Context) (context.Context, context.CancelFunc) {
	if !s.cfg.Options.SoftReval {
		return nil
	}
	r := &revalidations{patience: s.patience, silent: s.caller.Silent, now: time.Now}
	return r.limit
}

// limit bounds the time of one. The end of a full wait is what tells that the server is silent.
func (r *revalidations) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	p, now := r.patience(), r.now()
	full := p.Major()
	switch since := now.Sub(time.Unix(0, r.full.Load())); {
	case p.Soft:
		// The client gives up first, and says why; this is for what waits for a slot of version 4.
		return context.WithTimeout(ctx, 2*full)
	case r.silent() && since < fullWaitInterval:
		return context.WithTimeout(ctx, min(full, silentWait))
	}
	r.full.Store(now.UnixNano())
	return context.WithTimeoutCause(ctx, full, transport.ErrTimeout)
}
