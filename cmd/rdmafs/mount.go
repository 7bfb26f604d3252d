package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/internal/status"
)

// mountArgs is a mount command understood and checked.
type mountArgs struct {
	session.Config
	dir        string // absolute
	foreground bool
	debug      bool
}

func newMountCommand() *cobra.Command {
	var words []string
	var foreground, debug bool
	cmd := &cobra.Command{
		Use:   "mount SERVER:/EXPORT MOUNTPOINT",
		Short: "Mount an NFS export",
		Long: `Mount an NFS export. Returns when the mount is usable; a daemon goes on in the
background and logs to syslog. Exit codes are those of mount(8).

` + options.Help(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return withCode(exitUsage, fmt.Errorf("mount wants SERVER:/EXPORT and MOUNTPOINT, got %d arguments", len(args)))
			}
			m, err := checkMount(args[0], args[1], words)
			if err != nil {
				return err
			}
			m.foreground, m.debug = foreground, debug
			if foreground || isDaemon() {
				return m.serve()
			}
			return daemonize()
		},
	}
	cmd.Flags().StringArrayVarP(&words, "options", "o", nil, "mount options, comma separated (rdmafs mount --help lists them)")
	cmd.Flags().BoolVarP(&foreground, "foreground", "f", false, "stay in the foreground and log to stderr")
	cmd.Flags().BoolVarP(&debug, "debug", "d", false, "log every FUSE request (to stderr, so with -f)")
	return cmd
}

// checkMount finds what is wrong with a command without touching the network.
func checkMount(src, dir string, words []string) (*mountArgs, error) {
	opts, err := options.Parse(words)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	s, err := source.Parse(src)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	m := &mountArgs{Config: session.Config{Source: s, Options: opts}}
	if m.dir, err = m.mountPoint(dir); err != nil {
		return nil, err
	}
	if err := mount.Check(&opts); err != nil {
		return nil, withCode(exitUsage, fmt.Errorf("%s: %w", s.Text, err))
	}
	return m, nil
}

// mountPoint is the name that the mount table will show for dir, which is a
// directory. The daemon need not look with care any more.
func (m *mountArgs) mountPoint(dir string) (string, error) {
	abs, err := absolute(dir)
	if err != nil {
		return "", withCode(exitUsage, fmt.Errorf("%s: %w", m.Source.Text, err))
	}
	var at seen
	if isDaemon() {
		at.walk(abs, func() {})
	} else {
		at, err = look(abs, false)
	}
	bad := func(format string, args ...any) (string, error) {
		return "", withCode(exitFail, fmt.Errorf("%s: mount point %s %s", m.Source.Text, dir, fmt.Sprintf(format, args...)))
	}
	switch {
	case errors.Is(err, errSilent):
		return bad("does not answer%s", obstacle(at.at))
	case err != nil:
		return "", withCode(exitSystem, err)
	case at.dead():
		return bad("is dead, its daemon has ended%s", obstacle(at.at))
	case at.errno == syscall.ENOENT:
		return bad("does not exist (make it with: mkdir -p %s)", dir)
	case at.errno == syscall.EACCES:
		return bad("cannot be reached: user %d may not go there", os.Geteuid())
	case at.errno != 0:
		return bad("cannot be used: %v%s", at.errno, obstacle(at.at))
	case !at.dir:
		return bad("is not a directory")
	}
	return at.at, nil
}

// live is a mount that stands.
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

// serve mounts, tells whoever waits, and serves until unmounted.
func (m *mountArgs) serve() error {
	log := newLogger(m.foreground, m.debug, m.dir)
	m.Log = log
	fail := func(err error) error { return withCode(exitFail, session.NameSource(m.Source, err)) }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tellReady := func() error { return nil }
	if isDaemon() {
		// Who would read what is written to standard error may go before us.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		var giveUp context.CancelFunc
		ctx, giveUp = context.WithCancel(ctx)
		defer giveUp()
		p := newParent(parentConn(), giveUp)
		tellReady = func() error {
			cutOff()
			return p.tell()
		}
	}
	l, err := m.begin(ctx)
	if err != nil {
		return fail(err)
	}
	s, socket, mounted := l.Session, l.control, l.FS
	forced := newForced(mounted.Abort)
	defer forced.end()
	go socket.RunServe(control.Mount{
		Device: mounted.Device(),
		Stats:  func() any { return status.Of(s, m.dir) },
		Sync: func(ctx context.Context) error {
			err := s.Cache().Sync(ctx)
			if err != nil {
				log.Warn(fmt.Sprintf("sync: %v", err)) // who asked for it may have gone
			}
			return err
		},
		Abort: forced.start,
	})
	if note := s.Note(); note != "" {
		log.Warn("note: " + note)
		tellParent(fmt.Sprintf("note: %s: %s", m.Source.Text, note))
	}
	if err := tellReady(); err != nil {
		log.Warn(fmt.Sprintf("whoever asked for the mount has gone before it was usable: %v", err))
		if dir, err := mounted.Place(); err == nil {
			_ = mount.Detach(dir, true) // busy with whoever came across it
		}
	} else {
		log.Info(fmt.Sprintf("mounted %s (%s, %s)", m.Source.Text, s.How(), s.Client().Info().Version))
	}

	end := func(err error, well string) error {
		if err != nil {
			log.Error(fmt.Sprintf("DATA MAY BE LOST: %v", err))
			socket.Finish(err)
			return fail(err)
		}
		log.Info(well)
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
		return end(errors.Join(s.Cache().Sync(forced.late), socket.StopSyncs()), "ended by a signal: the mount was detached, and files still open on it fail from now on")
	case <-forced.late.Done():
		err := errors.New("files were open, and what they had not written is lost")
		log.Error(fmt.Sprintf("forced to end: %v", err))
		socket.Finish(err)
		return fail(err) // the kernel fails what is left of the mount
	}
	close(unmounted)
	<-watcher
	unheard := socket.StopSyncs()
	return end(errors.Join(unheard, s.Close(forced.late)), "unmounted")
}

// runWait closes ended when the file system has been unmounted.
func runWait(f *fs.FS, ended chan<- struct{}) {
	f.Wait()
	close(ended)
}

// runUnmountOnSignal unmounts on the first SIGINT or SIGTERM, if nothing is
// open, or closes detached if somebody has done so already. After it a second
// signal ends the process, as by default.
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
