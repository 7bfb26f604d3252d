package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/daemon"
	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
)

// mountArgs is a mount command understood and checked.
type mountArgs struct {
	session.Config
	dir        string   // absolute
	device     *os.File // of /dev/fuse, that another process has mounted; nil to mount
	foreground bool
	debug      bool
	verbose    bool
	dead       bool // on dir lies a mount whose daemon has ended
}

// newMountCommand is "rdmafs mount". commandLine is all of the arguments, which the daemon
// is started with.
func newMountCommand(commandLine []string) *cobra.Command {
	var words []string
	var foreground, debug, fake, verbose bool
	cmd := &cobra.Command{
		Use:   "mount SERVER:/EXPORT MOUNTPOINT",
		Short: "Mount an NFS export",
		Long: `Mount an NFS export. Returns when the mount is usable; a daemon goes on in the
background and logs to journald or syslog, or to a file where there is neither (rdmafs log). Exit codes are those of mount(8).

MOUNTPOINT /dev/fd/N stands for a descriptor of /dev/fuse that another process has mounted, with fd=N of mount(2),
and that this one has from it: neither privileges nor fusermount3 are needed then. Who has mounted it unmounts it.

` + options.Help(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list, is := options.TakeRemount(words); is {
				if cmd.Flags().Changed("debug") {
					list = debugWord(list, debug)
				}
				return remount(args, list)
			}
			if len(args) != 2 {
				return withCode(exitUsage, fmt.Errorf("mount wants SERVER:/EXPORT and MOUNTPOINT, got %d arguments", len(args)))
			}
			m, err := checkMount(args[0], args[1], words)
			if err != nil {
				return err
			}
			m.Options.Debug = m.Options.Debug || debug
			m.foreground, m.debug = foreground, m.Options.Debug
			m.verbose = verbose
			switch {
			case fake:
				return nil
			case foreground || daemon.Is():
				return m.serve()
			}
			return m.inBackground(commandLine)
		},
	}
	cmd.Flags().StringArrayVarP(&words, "options", "o", nil, "mount options, comma separated (rdmafs mount --help lists them)")
	cmd.Flags().BoolVarP(&foreground, "foreground", "f", false, "stay in the foreground and log to stderr")
	cmd.Flags().BoolVar(&fake, "fake", false, "check the command and this machine, and mount nothing")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "say how the server was reached")
	cmd.Flags().BoolVarP(&debug, "debug", "d", false, "log every FUSE request (to stderr, so with -f)")
	return cmd
}

// inBackground starts a daemon that serves the mount, and waits until that is
// usable.
func (m *mountArgs) inBackground(args []string) error {
	var keep []*os.File
	if m.device != nil {
		keep = append(keep, m.device)
	}
	err := daemon.Start(args, func(line string) { plain.Fprintf(os.Stderr, "rdmafs: %s\n", line) }, keep...)
	var ended *daemon.EndedError
	switch {
	case errors.As(err, &ended) && ended.Code > 0:
		return withCode(ended.Code, err)
	case errors.As(err, &ended):
		return withCode(exitFail, err)
	case errors.Is(err, daemon.ErrInterrupted):
		return withCode(exitInterrupted, err)
	}
	return withCode(exitSystem, err)
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
	if fd, given := mount.GivenFD(dir); given {
		return m, m.take(fd)
	}
	if m.dir, err = m.mountPoint(dir); err != nil {
		return nil, err
	}
	if err := mount.Check(&m.Options); err != nil {
		return nil, withCode(exitUsage, fmt.Errorf("%s: %w", s.Text, err))
	}
	return m, nil
}

// take takes descriptor fd in place of a mount point. The daemon has it by another number.
func (m *mountArgs) take(fd int) error {
	if daemon.Is() {
		fd = daemon.KeptFD
	}
	t, err := mount.Given(fd, &m.Options)
	if err != nil {
		return withCode(exitFail, fmt.Errorf("%s: %w", m.Source.Text, err))
	}
	m.dir, m.device = t.Dir, t.Device
	return nil
}

// mountPoint is the name that the mount table will show for dir, which is a
// directory. The daemon need not look with care any more.
func (m *mountArgs) mountPoint(dir string) (string, error) {
	abs, err := look.Absolute(dir)
	if err != nil {
		return "", withCode(exitUsage, fmt.Errorf("%s: %w", m.Source.Text, err))
	}
	var at look.Seen
	if daemon.Is() {
		at = look.Here(abs)
	} else {
		at, err = look.Path(abs, false)
	}
	bad := func(format string, args ...any) (string, error) {
		return "", withCode(exitFail, fmt.Errorf("%s: mount point %s %s", m.Source.Text, dir, fmt.Sprintf(format, args...)))
	}
	switch {
	case errors.Is(err, look.ErrSilent):
		return bad("does not answer%s", obstacle(at.At))
	case err != nil:
		return "", withCode(exitSystem, err)
	case at.Dead() && at.Found && mountOfOurs(at.At):
		m.dead = true
		return at.At, nil
	case at.Dead():
		return bad("is dead, its daemon has ended%s", obstacle(at.At))
	case at.Errno == syscall.ENOENT:
		return bad("does not exist (make it with: mkdir -p %s)", dir)
	case at.Errno == syscall.EACCES:
		return bad("cannot be reached: user %d may not go there", os.Geteuid())
	case at.Errno != 0:
		return bad("cannot be used: %v%s", at.Errno, obstacle(at.At))
	case !at.Dir:
		return bad("is not a directory")
	}
	return at.At, nil
}

// mountOfOurs reports whether what is mounted at dir, on top, is of rdmafs.
func mountOfOurs(dir string) bool {
	m, ok, err := mounttable.Find(dir)
	return err == nil && ok && m.Type == "fuse.rdmafs"
}
