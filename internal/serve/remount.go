package serve

import (
	"context"
	"fmt"
)

// Remount changes the mount by a list of options, all of them or, if it fails, none. What is
// written is safe on the server before the mount becomes read-only.
func (m *Mount) Remount(ctx context.Context, list string) error {
	select {
	case m.remounting <- struct{}{}:
		defer func() { <-m.remounting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	old := m.session.Options()
	o, err := old.Remounted(list)
	if err != nil {
		return err
	}
	if err := m.fs.Remount(ctx, o.ReadOnly, o.Fuse); err != nil {
		return err
	}
	if err := m.session.Change(ctx, o); err != nil {
		return err
	}
	if level := o.LogLevel(); m.cfg.SetLog != nil && level != old.LogLevel() {
		if err := m.cfg.SetLog(level); err != nil {
			return err
		}
	}
	m.cfg.Log.Info(fmt.Sprintf("mount options changed: %s", list))
	return nil
}
