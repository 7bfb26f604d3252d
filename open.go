package rdmafs

import (
	"context"

	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
)

// libraryBuffers is what a program among other things spends on one export.
const libraryBuffers = 16 << 20

// config is what source and o ask for.
func (o *Options) config(src string) (session.Config, error) {
	parsed, err := options.Parse([]string{o.Mount})
	if err != nil {
		return session.Config{}, err
	}
	s, err := source.Parse(src)
	if err != nil {
		return session.Config{}, err
	}
	return session.Config{Source: s, Options: parsed, Buffers: o.Buffers, Log: o.Log}, nil
}

// Open opens the export source, "server:/export", where nil Options are the
// defaults. ctx bounds the opening. The caller closes the FS.
func Open(ctx context.Context, source string, o *Options) (*FS, error) {
	if o == nil {
		o = &Options{}
	}
	cfg, err := o.config(source)
	if err != nil {
		return nil, err
	}
	if cfg.Buffers == 0 {
		cfg.Buffers = libraryBuffers
	}
	s, err := session.Open(ctx, cfg, nil)
	if err != nil {
		return nil, session.NameSource(cfg.Source, err)
	}
	f := newFS(s.Cache(), o.User.cred(), cfg.Options.ReadOnly, s.Close)
	f.x.status = func() Status {
		return Status{Transport: s.How(), Server: s.Server().String(), Version: s.Client().Info().Version, Calls: s.Stats().Calls}
	}
	return f, nil
}

// Mounted is an export mounted by Mount.
type Mounted struct{ m *mount.Mount }

// Mount mounts the export source at the directory dir by FUSE, as rdmafs mount
// does, and serves the mount in this process. It is usable when Mount returns.
// ctx bounds the mounting. The caller calls Unmount.
//
// A program can wait for itself on a mount that it serves: it must neither map
// files of the mount nor start programs while it has descriptors of the mount
// open.
func Mount(ctx context.Context, source, dir string, o *Options) (*Mounted, error) {
	if o == nil {
		o = &Options{}
	}
	cfg, err := o.config(source)
	if err != nil {
		return nil, err
	}
	if err := mount.Check(&cfg.Options); err != nil {
		return nil, session.NameSource(cfg.Source, err)
	}
	m, err := mount.At(ctx, cfg, dir)
	if err != nil {
		return nil, session.NameSource(cfg.Source, err)
	}
	return &Mounted{m}, nil
}

// Wait returns when the export has been unmounted, by Unmount or by anybody else.
// Unmount must be called all the same.
func (m *Mounted) Wait() { m.m.Wait() }

// Unmount unmounts the export, if that was not done yet, writes what is not
// written yet, and disconnects. It fails, and the mount stays, while files on it
// are open. Other errors say what data was lost. When ctx ends, Unmount gives up
// what the server has not taken.
func (m *Mounted) Unmount(ctx context.Context) error { return m.m.Close(ctx) }
