package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/checkup"
	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/serve"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
)

const doctorHelp = `Find out why a mount does not work, or what it would be like: walk the whole chain
from /dev/fuse to a trial mount, and print a line a step:

  ok        as it should be
  warning   worth knowing; the mount works all the same
  failure   keeps the mount from succeeding; behind -> stands what to do about it
  skipped   not tried, and why

In the export it asks what you may do there, and moves data both ways through a file that
it makes, locks for a moment and removes again where you may write (--no-write, or -o ro,
leaves that out).
Give the arguments of "rdmafs mount" without the mount point. The last step mounts the
export on a temporary directory for a moment, in the very way that "rdmafs mount" takes.
With the mount point of a running mount (a path that begins with / or .) its daemon is asked how it
is: whether the server is there, what waits, and what has gone wrong; the exit code is 0 if it is healthy.
With a server alone everything up to its answers is tried; without a server, this machine.

The exit code is 0 only if "rdmafs mount" with the same arguments would succeed. Nothing
takes longer than the mount itself would wait: timeo, at most 30 seconds, for each of the
server's addresses, and 15 seconds for a lock.`

const doctorExamples = `  rdmafs doctor                                      is this machine ready?
  rdmafs doctor server                               does the server answer, and by which ways?
  rdmafs doctor server:/export                       would "rdmafs mount server:/export DIR" work?
  rdmafs doctor server:/export -o proto=tcp          and over TCP?
  rdmafs doctor /mnt                                 how is this mount?
  rdmafs doctor server:/export -o timeo=20 --json    2 s for each attempt, for programs`

func newDoctorCommand() *cobra.Command {
	var words []string
	var asJSON, noWrite bool
	cmd := &cobra.Command{
		Use:     "doctor [SERVER[:/EXPORT] [-o OPTIONS] | MOUNTPOINT]",
		Short:   "Find out why a mount does not work",
		Long:    doctorHelp,
		Example: doctorExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return withCode(exitUsage, fmt.Errorf("doctor wants at most one SERVER:/EXPORT and no mount point, or one MOUNTPOINT alone"))
			}
			if len(args) == 1 && (strings.HasPrefix(args[0], "/") || strings.HasPrefix(args[0], ".")) {
				if len(words) > 0 || noWrite {
					return withCode(exitUsage, fmt.Errorf("doctor MOUNTPOINT takes no mount options: those of the mount hold"))
				}
				return doctorRunning(cmd, args[0], asJSON)
			}
			m, err := doctorArgs(args, words)
			if err != nil {
				return withCode(exitUsage, err)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.OutOrStdout()
			show := func(s doctor.Section) { doctor.WriteSection(out, s) }
			if asJSON {
				show = func(doctor.Section) {}
			}
			c := checkup.Case(m.Config, strings.Join(words, ","))
			c.Write = !noWrite && !m.Options.ReadOnly
			c.Trial = m.trial
			r := doctor.Examine(ctx, c, show)
			if asJSON {
				if err := plain.WriteJSON(out, r); err != nil {
					return withCode(exitSystem, err)
				}
			} else if r.OK {
				doctor.WriteVerdict(out, r)
			}
			return withCode(exitFail, r.Err())
		},
	}
	cmd.Flags().StringArrayVarP(&words, "options", "o", nil, "mount options, as for rdmafs mount")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&noWrite, "no-write", false, "make no file in the export to try writing with")
	return cmd
}

// doctorRunning examines a running mount.
func doctorRunning(cmd *cobra.Command, mountPoint string, asJSON bool) error {
	r, err := askReport(mountPoint)
	if err != nil {
		return err
	}
	found, out := checkup.Running(&r), cmd.OutOrStdout()
	if asJSON {
		if err := plain.WriteJSON(out, found); err != nil {
			return withCode(exitSystem, err)
		}
		return withCode(exitFail, found.Err())
	}
	for _, s := range found.Sections {
		doctor.WriteSection(out, s)
	}
	if found.OK {
		doctor.WriteVerdict(out, found)
	}
	return withCode(exitFail, found.Err())
}

// doctorArgs understands the arguments as mount does, but for what may be left
// away.
func doctorArgs(args, words []string) (*mountArgs, error) {
	opts, err := options.Parse(words)
	if err != nil {
		return nil, err
	}
	m := &mountArgs{Config: session.Config{Options: opts}}
	if len(args) == 0 {
		return m, nil
	}
	m.Source, err = source.ParseServer(args[0])
	return m, err
}

// trial mounts on a temporary directory, and unmounts.
func (m *mountArgs) trial(ctx context.Context) (how string, err error) {
	dir, err := os.MkdirTemp("", "rdmafs-doctor.")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	l, err := serve.Start(ctx, serve.Config{Config: m.Config, Dir: dir, Debug: m.debug})
	if err != nil {
		return "", err
	}
	how = fmt.Sprintf("%s to %s, NFS version %s", l.Session().How(), l.Session().Server(), l.Session().Client().Info().Version)
	if err := l.Unmount(); err != nil {
		now, cancel := context.WithCancel(ctx)
		cancel()
		return "", errors.Join(fmt.Errorf("the mount works, but %s cannot be unmounted again: %w", dir, err), l.Detach(), l.Serve(now))
	}
	return how, l.Serve(context.Background())
}
