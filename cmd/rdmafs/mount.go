package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
)

// mountArgs is a mount command understood and checked.
type mountArgs struct {
	src        source
	dir        string // absolute
	opts       options
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

` + optionHelp,
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
	opts, err := parseOptions(words)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	s, err := parseSource(src)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	m := &mountArgs{src: s, opts: opts}
	if m.dir, err = m.mountPoint(dir); err != nil {
		return nil, err
	}
	if err := checkFuse(opts); err != nil {
		return nil, withCode(exitUsage, fmt.Errorf("%s: %w", s.text, err))
	}
	return m, nil
}

// mountPoint is the name that the mount table will show for dir, which is a
// directory. The daemon need not look with care any more.
func (m *mountArgs) mountPoint(dir string) (string, error) {
	abs, err := absolute(dir)
	if err != nil {
		return "", withCode(exitUsage, fmt.Errorf("%s: %w", m.src.text, err))
	}
	var at seen
	if isDaemon() {
		at.walk(abs, func() {})
	} else {
		at, err = look(abs, false)
	}
	bad := func(format string, args ...any) (string, error) {
		return "", withCode(exitFail, fmt.Errorf("%s: mount point %s %s", m.src.text, dir, fmt.Sprintf(format, args...)))
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

// checkFuse looks for what this user needs of this machine to mount.
func checkFuse(o options) error {
	_, err3 := exec.LookPath("fusermount3")
	_, err2 := exec.LookPath("fusermount")
	if err3 != nil && err2 != nil && !mayMount() {
		return errors.New("mounting without CAP_SYS_ADMIN needs fusermount3, and it is not in PATH (install the package fuse3)")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("/dev/fuse does not exist (load the kernel module fuse, or give the container the device)")
	}
	if err == nil {
		f.Close()
	}
	if o.allowOther && !mayMount() && !fuseConfAllowsOther() {
		return errors.New("allow_other is not permitted to ordinary users here (root may add the line user_allow_other to /etc/fuse.conf)")
	}
	return nil
}

// The bounds of connectTimeout. However soon a mount is to give a call up, a
// busy machine may take longer to connect.
const (
	leastConnectTimeout = 2 * time.Second
	mostConnectTimeout  = 30 * time.Second
)

// connectTimeout bounds everything up to the mounted file system, but for the
// lookups of several addresses.
func (m *mountArgs) connectTimeout() time.Duration {
	return max(leastConnectTimeout, min(m.opts.timeo, mostConnectTimeout))
}

// live is a mount that stands.
type live struct {
	session *session
	control *control // not served yet
	fs      *fs.FS
}

// begin does everything that makes a mount usable. When it fails nothing is
// left of it.
func (m *mountArgs) begin(ctx context.Context, log *slog.Logger) (*live, error) {
	s, err := connect(ctx, m, log)
	if err != nil {
		return nil, err
	}
	kernel := fs.NewKernel()
	if err := s.startCache(kernel, log); err != nil {
		s.close(ctx, log)
		return nil, err
	}
	control, err := newControl(m.dir)
	if err != nil {
		s.close(ctx, log)
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		control.finish(nil)
		s.close(ctx, log)
		return nil, err
	}
	var mounted *fs.FS
	words, err := capturingStderr(func() (err error) {
		mounted, err = fs.Mount(s.cache, kernel, m.dir, fs.Config{
			Source:             m.src.text,
			ReadOnly:           m.opts.readOnly,
			AllowOther:         m.opts.allowOther,
			DefaultPermissions: m.opts.defaultPermissions,
			Options:            m.opts.fuse,
			ReadAheadKiB:       kernelReadAheadKiB,
			Log:                log,
			Debug:              m.debug,
		})
		return err
	})
	if err != nil {
		control.finish(nil)
		s.close(ctx, log)
		return nil, explainMount(err, words, m.dir)
	}
	return &live{s, control, mounted}, nil
}

// serve mounts, tells whoever waits, and serves until unmounted.
func (m *mountArgs) serve() error {
	log := newLogger(m.foreground, m.debug, m.dir)
	fail := func(err error) error { return withCode(exitFail, nameSource(m.src, err)) }

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
	l, err := m.begin(ctx, log)
	if err != nil {
		return fail(err)
	}
	s, control, mounted := l.session, l.control, l.fs
	forced := newForced(mounted.Abort)
	defer forced.end()
	control.sync = func(ctx context.Context) error {
		err := s.cache.Sync(ctx)
		if err != nil {
			log.Warn(fmt.Sprintf("sync: %v", err)) // who asked for it may have gone
		}
		return err
	}
	go control.runServe(newStatus(m, s), mounted.Device(), forced.start)
	if note := s.route.memory.note; note != "" {
		log.Warn("note: " + note)
		tellParent(fmt.Sprintf("note: %s: %s", m.src.text, note))
	}
	if err := tellReady(); err != nil {
		log.Warn(fmt.Sprintf("whoever asked for the mount has gone before it was usable: %v", err))
		if dir, err := mounted.Place(); err == nil {
			_ = detach(dir, true) // busy with whoever came across it
		}
	} else {
		log.Info(fmt.Sprintf("mounted %s (%s, %s)", m.src.text, s.how, s.client.Info().Version))
	}

	end := func(err error, well string) error {
		if err != nil {
			log.Error(fmt.Sprintf("DATA MAY BE LOST: %v", err))
			control.finish(err)
			return fail(err)
		}
		log.Info(well)
		control.finish(nil)
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
		return end(errors.Join(s.cache.Sync(forced.late), control.stopSyncs()), "ended by a signal: the mount was detached, and files still open on it fail from now on")
	case <-forced.late.Done():
		err := errors.New("files were open, and what they had not written is lost")
		log.Error(fmt.Sprintf("forced to end: %v", err))
		control.finish(err)
		return fail(err) // the kernel fails what is left of the mount
	}
	close(unmounted)
	<-watcher
	unheard := control.stopSyncs()
	return end(errors.Join(unheard, s.close(forced.late, log)), "unmounted")
}

// runWait closes ended when the file system has been unmounted.
func runWait(f *fs.FS, ended chan<- struct{}) {
	f.Wait()
	close(ended)
}

// nameSource starts a message with what was to be mounted, unless it does so
// already.
func nameSource(src source, err error) error {
	var named *nfs3.MountError
	if errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %w", src.text, err)
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
	err := unmountOwn(f)
	switch {
	case errors.Is(err, fs.ErrDetached):
		close(detached)
	case err != nil:
		log.Warn(fmt.Sprintf("cannot unmount on signal: %v (a second signal ends the process and loses unwritten data)", err))
	}
}

// explainMount puts the reason of a failed FUSE mount into one sentence. words
// is what fusermount3 wrote.
func explainMount(err error, words, dir string) error {
	switch {
	case words != "":
		return fmt.Errorf("cannot mount: %s%s", words, helperHint(dir))
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("cannot mount: %w (mounting needs fusermount3 or CAP_SYS_ADMIN)", err)
	}
	return err
}

// helperHint is what may have kept fusermount3 from mounting.
func helperHint(dir string) string {
	if why := powerless(); why != "" {
		return " (" + why + ")"
	}
	if m, ok, _ := fs.FindMount(dir); ok {
		return fmt.Sprintf(" (on %s lies a mount of %s already, type %s)", dir, m.Source, m.Type)
	}
	return ""
}
