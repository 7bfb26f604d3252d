package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/privilege"
	"github.com/rdmafs/rdmafs/internal/session"
)

// kernelReadAheadKiB is what the kernel's own read-ahead is raised to, where this
// process may.
const kernelReadAheadKiB = 1024

// Mount is a session under a directory.
type Mount struct {
	Session *session.Session
	FS      *fs.FS
}

// At connects to what cfg names and mounts it at dir, an existing directory. The
// mount is usable when it returns, and served by this process. The caller closes
// it.
func At(ctx context.Context, cfg session.Config, dir string) (*Mount, error) {
	kernel := fs.NewKernel()
	cfg.MountPoint = dir
	s, err := session.Open(ctx, cfg, kernel)
	if err != nil {
		return nil, err
	}
	f, err := Attach(s, kernel, Target{Dir: dir}, false)
	if err != nil {
		_ = s.Close(ctx) // nothing was written yet
		return nil, err
	}
	return &Mount{s, f}, nil
}

// Wait returns when the file system has been unmounted.
func (m *Mount) Wait() { m.FS.Wait() }

// Close unmounts, if that was not done yet, and then makes everything safe that
// was written. It fails, and the mount stays, while files on it are open. Other
// errors mean that data was lost. A server that is away is waited for, as hard
// mounts do, until ctx ends.
func (m *Mount) Close(ctx context.Context) error {
	if err := Unmount(m.FS); err != nil && !errors.Is(err, mounttable.ErrDetached) {
		return err
	}
	m.FS.Wait()
	return m.Session.Close(ctx)
}

// Attach mounts a session's cache at t. kernel is what its cache was started
// with. debug logs every request. The session is the caller's, also afterwards.
func Attach(s *session.Session, kernel *fs.Kernel, t Target, debug bool) (*fs.FS, error) {
	cfg := s.Config()
	posix, flock := cfg.Options.ServerLocks()
	f, err := fs.Mount(s.Cache(), kernel, t.Dir, fs.Config{
		Source:             cmp.Or(cfg.Options.FSName, cfg.Source.Text),
		ReadOnly:           cfg.Options.ReadOnly,
		AllowOther:         cfg.Options.AllowOther,
		DefaultPermissions: cfg.Options.DefaultPermissions,
		PosixLocks:         posix,
		Flocks:             flock,
		Options:            cfg.Options.Fuse,
		Over:               cfg.Options.Over,
		ReadAheadKiB:       kernelReadAheadKiB,
		Log:                cfg.Log,
		Debug:              debug,
		Device:             t.Device,
		AutoUnmount:        cfg.Options.AutoUnmount,
	})
	if err != nil {
		return nil, explain(err, t.Dir)
	}
	return f, nil
}

// explain puts the reason of a failed FUSE mount into one sentence.
func explain(err error, dir string) error {
	var helper *fs.HelperError
	switch {
	case errors.As(err, &helper) && helper.Said != "":
		return fmt.Errorf("cannot mount: %s%s", helper.Said, helperHint(dir))
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("cannot mount: %w (mounting needs fusermount3 or CAP_SYS_ADMIN)", err)
	}
	return err
}

// helperHint is what may have kept fusermount3 from mounting.
func helperHint(dir string) string {
	if why := privilege.HelperObstacle(); why != "" {
		return " (" + why + ")"
	}
	if m, ok, _ := mounttable.Find(dir); ok {
		return fmt.Sprintf(" (on %s lies a mount of %s already, type %s)", dir, m.Source, m.Type)
	}
	return ""
}
