package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/options"
)

func newLogCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "log MOUNTPOINT LEVEL",
		Short: "Change how much a running mount logs",
		Long: `Change how much a running mount logs: LEVEL is ` + strings.Join(options.LogLevels, ", ") + `, as with -o log=.
It holds until the mount ends or the level is changed again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains(options.LogLevels, args[1]) {
				return withCode(exitUsage, fmt.Errorf("log wants MOUNTPOINT and one of %s", strings.Join(options.LogLevels, ", ")))
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
}
