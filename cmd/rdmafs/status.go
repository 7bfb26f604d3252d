package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/plain"
)

func newStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status MOUNTPOINT",
		Short: "Show what is in force on a mount",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("status wants one MOUNTPOINT"))
			}
			r, err := askReport(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r.inForce)
			}
			return printStatus(cmd.OutOrStdout(), r.inForce)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStatus(to io.Writer, s inForce) error {
	choose := func(what bool, yes, no string) string {
		if what {
			return yes
		}
		return no
	}
	plain.Fprintf(to, "%s on %s\n", s.Source, s.MountPoint)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "transport\t%s to %s, NFS version %s, %d connections, daemon %d\n", s.Transport, s.Server, s.Version, s.NConnect, s.PID)
	if s.Device != "" {
		plain.Fprintf(w, "device\t%s, keys: %s\n", s.Device, choose(s.Keys == "region",
			"region (the server can reach all buffers while connected)", s.Keys+" (the server can reach the bytes of a call while it lasts)"))
	}
	if s.RDMA != nil {
		printTerms(w, s.RDMA)
	}
	if s.LoweredMTU > 0 {
		plain.Fprintf(w, "path MTU\t%d, as larger RoCE packets are lost on the way: is the MTU the same everywhere on it?\n", s.LoweredMTU)
	}
	plain.Fprintf(w, "sizes\trsize %d, wsize %d\n", s.RSize, s.WSize)
	plain.Fprintf(w, "waiting\t%s, timeo %gs, retrans %d\n", choose(s.Soft, "soft", "hard"), s.Timeo, s.Retrans)
	plain.Fprintf(w, "access\t%s\n", choose(s.ReadOnly, "read-only", "read-write"))
	plain.Fprintf(w, "buffers\tup to %d MiB\n", s.Buffers>>20)
	if s.Note != "" {
		plain.Fprintf(w, "note\t%s\n", s.Note)
	}
	return w.Flush()
}
