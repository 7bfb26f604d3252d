package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/status"
)

// Config says what is mounted where.
type Config struct {
	session.Config
	// Dir is an existing directory, by its absolute path; with Device see mount.Target.
	Dir    string
	Device *os.File
	// Debug logs every FUSE request.
	Debug bool
	// SetLog, if set, changes the level from which on Log logs.
	SetLog func(level string) error
	// Ended, if set, is called with what Serve is about to return, before those are told who wait
	// for the end.
	Ended func(error)
	// LogPlace is where Log goes, for Report.
	LogPlace string
	// Busy, if set, is called with the reason when the context of Serve has ended and
	// the mount cannot be unmounted, as files on it are open: it goes on until somebody
	// unmounts it.
	Busy func(error)
	// Away, if set, is called when the server cannot be reached and is tried again, with
	// what failed; retry=, bg and fg say for how long. Without it Start tries once.
	Away func(error)
	// Replace detaches a mount at Dir first whose daemon has ended.
	Replace bool
}

// Mount is a usable mount of this process that answers on its control socket.
type Mount struct {
	cfg      Config
	session  *session.Session
	fs       *fs.FS
	socket   *control.Server
	answered chan struct{} // closed when the socket does not answer any more
	force    *force
	// unmounted is closed when the kernel has let go of the file system, done when
	// nothing of the mount is left.
	unmounted, done chan struct{}
	remounting      chan struct{} // capacity 1: holds a token during Remount
}

// Start connects, mounts and begins to answer on the control socket. ctx bounds it.
// The caller must call Serve.
func Start(ctx context.Context, cfg Config) (*Mount, error) {
	kernel := fs.NewKernel()
	patience := time.Duration(0)
	if cfg.Away != nil {
		patience = cfg.Options.Patience()
	}
	cfg.MountPoint = cfg.Dir
	s, err := session.OpenWithin(ctx, cfg.Config, kernel, patience, cfg.Away)
	if err != nil {
		return nil, err
	}
	socket, err := control.New(cfg.Dir)
	if err != nil {
		_ = s.Close(ctx) // nothing was written yet
		return nil, err
	}
	f, err := (*fs.FS)(nil), ctx.Err()
	if err == nil && cfg.Replace {
		err = mount.Detach(cfg.Dir, true)
	}
	if err == nil {
		f, err = mount.Attach(s, kernel, mount.Target{Dir: cfg.Dir, Device: cfg.Device}, cfg.Debug)
	}
	if err != nil {
		socket.Finish(nil)
		_ = s.Close(ctx)
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := &Mount{
		cfg: cfg, session: s, fs: f, socket: socket, answered: make(chan struct{}), force: newForce(f.Abort),
		unmounted: make(chan struct{}), done: make(chan struct{}), remounting: make(chan struct{}, 1),
	}
	go m.runAnswer()
	go m.runWait()
	return m, nil
}

// Report is what "stats" is answered with.
func (m *Mount) Report() status.Report {
	r := status.Of(m.session, m.cfg.Dir, m.fs)
	r.LogPlace = m.cfg.LogPlace
	return r
}

// Session is what is mounted.
func (m *Mount) Session() *session.Session { return m.session }

// Unmount unmounts, and Serve returns, unless files are open on the mount.
func (m *Mount) Unmount() error { return mount.Unmount(m.fs) }

// Detach takes the mount out of the mount table at once; Serve goes on until the last
// file on it is closed.
func (m *Mount) Detach() error {
	dir, err := m.fs.Place()
	if err != nil {
		return err
	}
	return mount.Detach(dir, true)
}

// Abort fails the requests that wait for the server. Serve returns within ForcedGrace,
// or a little more. What the server has not taken by then is lost.
func (m *Mount) Abort() { m.force.start() }

// Done is closed when nothing of the mount is left in this process: before Serve
// returns, unless the kernel still has the file system for somebody then.
func (m *Mount) Done() <-chan struct{} { return m.done }

// runAnswer answers on the control socket.
func (m *Mount) runAnswer() {
	defer close(m.answered)
	m.socket.RunServe(control.Mount{
		Device: m.fs.Device(),
		Stats:  func() any { return m.Report() },
		Used:   func() any { return m.fs.Used() },
		Sync: func(ctx context.Context) error {
			err := m.session.Cache().Sync(ctx)
			if err != nil {
				m.cfg.Log.Warn(fmt.Sprintf("sync: %v", err)) // the client may have hung up
			}
			return err
		},
		SetLog:  m.cfg.SetLog,
		Remount: m.Remount,
		Abort:   m.force.start,
	})
}

// runWait closes unmounted when the kernel has let go of the file system.
func (m *Mount) runWait() {
	m.fs.Wait()
	close(m.unmounted)
}
