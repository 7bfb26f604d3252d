package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
)

const statsHelp = `Show how a mount's calls travelled, how often the cache has answered in their place, and what
each procedure has cost: calls, errors, resends, bytes, and the mean, the median and the 99th
percentile of the times that calls were queued here, were on their way (RTT), and took
altogether. Times are known to an eighth. NFS version 4 has one procedure, COMPOUND: its calls are
counted by the operation that each is made for, as in /proc/self/mountstats.

With --interval each report is of what has happened since the one before; the first is of the
time since the mount.`

func newStatsCommand() *cobra.Command {
	var f statsFlags
	cmd := &cobra.Command{
		Use:   "stats MOUNTPOINT",
		Short: "Show how a mount's calls travelled, and what they cost",
		Long:  statsHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("stats wants one MOUNTPOINT"))
			}
			if f.asJSON && f.mountstats {
				return withCode(exitUsage, fmt.Errorf("--json and --mountstats cannot be had at once"))
			}
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, an object a report")
	cmd.Flags().BoolVar(&f.mountstats, "mountstats", false, "print as /proc/self/mountstats, for programs that read it")
	f.add(cmd)
	return cmd
}

// statsFlags say how statistics are printed.
type statsFlags struct {
	repeat
	asJSON, mountstats bool
}

func (f *statsFlags) run(cmd *cobra.Command, mountPoint string) error {
	var before status.Report
	return f.each(cmd.Context(), func(n int) error {
		r, err := askReport(mountPoint)
		if err != nil {
			return err
		}
		shown := r
		if n > 0 {
			shown = r.Since(&before)
		}
		before = r
		to := cmd.OutOrStdout()
		switch {
		case f.asJSON:
			return plain.WriteJSON(to, shown)
		case f.mountstats:
			return status.PrintMountstats(to, r) // its readers subtract themselves
		case f.repeats():
			return status.PrintRates(to, shown)
		}
		return status.PrintReport(to, shown)
	})
}

// askReport has the daemon of a mount point tell of itself.
func askReport(mountPoint string) (r status.Report, err error) {
	dir, err := mountPointArg(mountPoint)
	if err != nil {
		return r, withCode(exitUsage, err)
	}
	b, err := control.Stats(dir)
	if err != nil {
		return r, withCode(exitFail, fmt.Errorf("%s: %w%s", mountPoint, err, remains(dir, err)))
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, withCode(exitSystem, fmt.Errorf("%s: the daemon's answer: %w", mountPoint, err))
	}
	return r, nil
}

// remains says what there is on a directory for which no daemon has answered.
func remains(dir string, err error) string {
	m, ok, _ := mounttable.Find(dir)
	var hung *control.StuckError
	switch {
	case errors.As(err, &hung):
		return fmt.Sprintf(" (end the mount with: rdmafs umount -f %s)", dir)
	case !errors.Is(err, control.ErrNoDaemon):
		return ""
	case !ok:
		return ": nothing is mounted there"
	case m.Type != "fuse.rdmafs":
		return fmt.Sprintf(": it is a mount of type %s", m.Type)
	case os.Geteuid() != 0 && m.UID != uint32(os.Geteuid()):
		return fmt.Sprintf(": it is a mount of %s by user %d", m.Source, m.UID)
	}
	at, err := look.Path(dir, false)
	switch {
	case errors.Is(err, look.ErrSilent):
		return fmt.Sprintf(": what is there is a mount of %s that does not answer (end it with: rdmafs umount -f %s)", m.Source, dir)
	case at.Dead():
		return fmt.Sprintf(": what is there is a dead mount of %s (end it with: rdmafs umount %s)%s", m.Source, dir, crashed(dir))
	}
	return fmt.Sprintf(": what is there is a mount of %s, whose daemon has its socket elsewhere (was XDG_RUNTIME_DIR another when it was mounted?)", m.Source)
}
