package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/checkup"
	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

const devicesHelp = `Show the RDMA devices of this machine: their ports, whether those are up, link layer,
rate, GIDs with their types and network devices, firmware and driver, memory windows, and
whether this user may open the character devices that lead to them.

rdmafs needs none of them for -o rdma=iwarp and -o proto=tcp.`

func newDevicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Show the RDMA devices of this machine",
		Long:  devicesHelp,
		Example: `  rdmafs devices
  rdmafs devices --json | jq -r '.devices[].name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withCode(exitUsage, fmt.Errorf("devices takes no argument, got %q", args[0]))
			}
			inv := doctor.TakeInventory(rdmadev.System(), checkup.Windows)
			if !asJSON {
				doctor.WriteInventory(cmd.OutOrStdout(), inv)
				return nil
			}
			return withCode(exitSystem, plain.WriteJSON(cmd.OutOrStdout(), inv))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
