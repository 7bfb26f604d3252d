package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/daemon"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/status"
)

// live is a usable mount of this process.
type live struct {
	*mount.Mount
	control *control.Server // not served yet
}

// begin does everything that makes a mount usable. When it fails nothing is
// left of it.
func (m *mountArgs) begin(ctx context.Context) (*live, error) {
	kernel := fs.NewKernel()
	s, err := session.Open(ctx, m.Config, kernel)
	if err != nil {
		return nil, err
	}
	socket, err := control.New(m.dir)
	if err != nil {
		_ = s.Close(ctx) // nothing was written yet
		return nil, err
	}
	f, err := (*fs.FS)(nil), ctx.Err()
	if err == nil {
		f, err = mount.Attach(s, kernel, m.dir, m.debug)
	}
	if err != nil {
		socket.Finish(nil)
		_ = s.Close(ctx)
		return nil, err
	}
	return &live{&mount.Mount{Session: s, FS: f}, socket}, nil
}

// serve mounts, reports to the command that is waiting, and serves until the mount
// ends.
func (m *mountArgs) serve() error {
	log := newLogger(m.foreground, m.debug, m.dir)
	m.Log = log
	fail := func(err error) error { return withCode(exitFail, session.NameSource(m.Source, err)) }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ready, note := func() error { return nil }, func(string) {}
	if daemon.Is() {
		// The command that reads standard error may end first.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		var giveUp context.CancelFunc
		ctx, giveUp = context.WithCancel(ctx)
		defer giveUp()
		p, err := daemon.NewParent(giveUp)
		if err != nil {
			return withCode(exitSystem, err)
		}
		ready, note = p.Ready, p.Note
	}
	l, err := m.begin(ctx)
	if err != nil {
		return fail(err)
	}
	s, socket, mounted := l.Session, l.control, l.FS
	forced := newForcedEnd(mounted.Abort)
	defer forced.cancel()
	go socket.RunServe(control.Mount{
		Device: mounted.Device(),
		Stats:  func() any { return status.Of(s, m.dir) },
		Sync: func(ctx context.Context) error {
			err := s.Cache().Sync(ctx)
			if err != nil {
				log.Warn(fmt.Sprintf("sync: %v", err)) // the client may have hung up
			}
			return err
		},
		Abort: forced.start,
	})
	if short := s.Note(); short != "" {
		log.Warn("note: " + short)
		note(fmt.Sprintf("note: %s: %s", m.Source.Text, short))
	}
	if err := ready(); err != nil {
		log.Warn(fmt.Sprintf("the command that asked for the mount ended before it was usable: %v", err))
		if dir, err := mounted.Place(); err == nil {
			_ = mount.Detach(dir, true) // lazily: another process may have files open on it
		}
	} else {
		log.Info(fmt.Sprintf("mounted %s (%s, %s)", m.Source.Text, s.How(), s.Client().Info().Version))
	}

	end := func(err error, success string) error {
		if err != nil {
			log.Error(fmt.Sprintf("DATA MAY BE LOST: %v", err))
			socket.Finish(err)
			return fail(err)
		}
		log.Info(success)
		socket.Finish(nil)
		return nil
	}
	unmounted, watcher, detached := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go runUnmountOnSignal(ctx, stop, mounted, unmounted, detached, watcher, log)
	ended := make(chan struct{})
	go runWait(mounted, ended)
	select {
	case <-ended:
	case <-detached:
		// Open files may go on writing; the kernel fails what is left of the
		// mount.
		return end(errors.Join(s.Cache().Sync(forced.expired), socket.StopSyncs()), "ended by a signal: the mount was detached, and files still open on it fail from now on")
	case <-forced.expired.Done():
		err := errors.New("files were open, and what they had not written is lost")
		log.Error(fmt.Sprintf("forced to end: %v", err))
		socket.Finish(err)
		return fail(err) // the kernel fails what is left of the mount
	}
	close(unmounted)
	<-watcher
	unreported := socket.StopSyncs()
	return end(errors.Join(unreported, s.Close(forced.expired)), "unmounted")
}

// runWait closes ended when the file system has been unmounted.
func runWait(f *fs.FS, ended chan<- struct{}) {
	f.Wait()
	close(ended)
}

// runUnmountOnSignal unmounts on the first SIGINT or SIGTERM, if nothing is
// open, or closes detached if the mount was detached already. From then on a
// second signal ends the process, as by default.
func runUnmountOnSignal(ctx context.Context, stop func(), f *fs.FS, unmounted <-chan struct{}, detached, done chan<- struct{}, log *slog.Logger) {
	defer close(done)
	select {
	case <-unmounted:
		return
	case <-ctx.Done():
	}
	stop()
	select {
	case <-unmounted:
		return
	default:
	}
	err := mount.Unmount(f)
	switch {
	case errors.Is(err, mounttable.ErrDetached):
		close(detached)
	case err != nil:
		log.Warn(fmt.Sprintf("cannot unmount on signal: %v (a second signal ends the process and loses unwritten data)", err))
	}
}
