package session

import (
	"context"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// Change puts options in force that differ from those in force by what a remount can change
// (options.Options.Remounted): for how long attributes are fresh, and how long calls wait. Read-only
// is the cache's. A session with a cache only; not twice at once.
func (s *Session) Change(ctx context.Context, o options.Options) error {
	if err := s.cache.SetTimes(ctx, cache.Times{
		AcRegMin: o.AcRegMin, AcRegMax: o.AcRegMax, AcDirMin: o.AcDirMin, AcDirMax: o.AcDirMax, NoAC: o.NoAC,
	}); err != nil {
		return err
	}
	s.changed.Store(&o)
	p := s.patience()
	s.caller.SetPatience(p)
	if l := s.locks.Load(); l != nil {
		l.SetPatience(p)
	}
	return nil
}

// patience is how long calls wait, by the options in force.
func (s *Session) patience() reconnect.Patience {
	o := s.Options()
	return reconnect.Patience{Timeo: o.Timeo, Retrans: o.Retrans, Soft: o.Soft, SoftErr: o.SoftErr}
}
