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

func newStatsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats MOUNTPOINT",
		Short: "Show how a mount's calls travelled",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("stats wants one MOUNTPOINT"))
			}
			r, err := askReport(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return plain.WriteJSON(cmd.OutOrStdout(), r)
			}
			return status.PrintReport(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
		return fmt.Sprintf(": what is there is a dead mount of %s (end it with: rdmafs umount %s)", m.Source, dir)
	}
	return fmt.Sprintf(": what is there is a mount of %s, whose daemon has its socket elsewhere (was XDG_RUNTIME_DIR another when it was mounted?)", m.Source)
}
