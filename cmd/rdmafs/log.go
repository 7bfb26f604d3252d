package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
)

func newLogCommand() *cobra.Command {
	lines := 100
	cmd := &cobra.Command{
		Use:   "log MOUNTPOINT [LEVEL]",
		Short: "Show the log of a mount, or change how much is logged",
		Long: `Without LEVEL, show the last lines of the log of a mount where that is a file: that of -o logfile=, or, where
there is neither journald nor syslog, one in the runtime directory, which has the last 512 KiB at least and goes when the mount ends in
order. It is there, too, when the daemon of the mount has ended by a fault.

Change how much a running mount logs: LEVEL is ` + strings.Join(options.LogLevels, ", ") + `, as with -o log=.
It holds until the mount ends or the level is changed again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && lines > 0:
				return showLog(cmd.OutOrStdout(), args[0], lines)
			case len(args) != 2 || !slices.Contains(options.LogLevels, args[1]):
				return withCode(exitUsage, fmt.Errorf("log wants MOUNTPOINT, and one of %s to change the level", strings.Join(options.LogLevels, ", ")))
			}
			dir, err := mountPointArg(args[0])
			if err != nil {
				return withCode(exitUsage, err)
			}
			failed, err := control.SetLog(dir, args[1])
			switch {
			case err != nil:
				return withCode(exitFail, fmt.Errorf("%s: %w%s", dir, err, remains(dir, err)))
			case failed != "":
				return withCode(exitFail, fmt.Errorf("%s: %s", dir, failed))
			}
			return nil
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", lines, "how many lines to show")
	return cmd
}

// showLog prints the last lines of a mount's log.
func showLog(to io.Writer, arg string, lines int) error {
	dir, err := mountPointArg(arg)
	if err != nil {
		return withCode(exitUsage, err)
	}
	r, err := askReport(dir)
	place := r.LogPlace
	switch {
	case err != nil:
		// What its daemon has left, if that was this user's.
		name, nerr := runtimeLog(dir)
		if _, missing := os.Lstat(name); nerr != nil || missing != nil {
			return err
		}
		place = name
	case place == status.LogJournal:
		return withCode(exitFail, fmt.Errorf("%s: the log is in the journal: journalctl '%s=%s'", dir, status.FieldMountPoint, strings.ReplaceAll(dir, "'", `'\''`)))
	case place == status.LogSyslog:
		return withCode(exitFail, fmt.Errorf("%s: the log goes to syslog (/var/log, or journalctl -t rdmafs)", dir))
	case !filepath.IsAbs(place):
		return withCode(exitFail, fmt.Errorf("%s: the log goes to standard error of process %d", dir, r.PID))
	}
	all, err := lastLines(place, ownerOf(dir), lines)
	if err != nil {
		return withCode(exitFail, fmt.Errorf("%s: the log: %w", dir, err))
	}
	for _, line := range all {
		plain.Fprintf(to, "%s\n", line)
	}
	return nil
}
