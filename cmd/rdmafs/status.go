package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
)

func newStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status MOUNTPOINT",
		Short: "Show what is in force on a mount, whether its server is there, and what waits for it",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("status wants one MOUNTPOINT"))
			}
			r, err := askReport(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return plain.WriteJSON(cmd.OutOrStdout(), r.Status())
			}
			if err := status.PrintInForce(cmd.OutOrStdout(), r.InForce); err != nil {
				return err
			}
			return status.PrintState(cmd.OutOrStdout(), r.State)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
