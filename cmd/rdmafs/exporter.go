package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/metrics"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
)

func newExporterCommand() *cobra.Command {
	listen := "127.0.0.1:9920"
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve Prometheus metrics of all mounts of this host",
		Long: `Serve Prometheus metrics of all mounts of this host on /metrics, until interrupted: those that this user
may see, as root all. --listen takes ADDRESS:PORT, :PORT for the loopback address, or unix:PATH, a socket of this user
alone. Whoever can connect sees paths of mount points, names of servers and what is done on them, but no names of files.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withCode(exitUsage, fmt.Errorf("exporter takes no arguments"))
			}
			o, err := options.Parse([]string{"metrics=" + listen})
			if err != nil {
				return withCode(exitUsage, fmt.Errorf("--listen: %w", err))
			}
			ln, err := metrics.Listen(o.Metrics)
			if err != nil {
				return withCode(exitSystem, err)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			s := metrics.Serve(ln, metrics.Handler(exported))
			defer s.Close()
			plain.Fprintf(cmd.ErrOrStderr(), "rdmafs: serving metrics on %s\n", ln.Addr())
			<-ctx.Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "where to serve")
	return cmd
}

// exported are the mounts of this host. Those of other users are left out: nothing can be known of them.
func exported() ([]metrics.Mount, error) {
	all, err := listMounts()
	if err != nil {
		return nil, err
	}
	var known []metrics.Mount
	for i := range all {
		l := &all[i]
		if l.State == stateForeign {
			continue
		}
		m := metrics.Mount{Source: l.Source, MountPoint: l.MountPoint}
		if l.answered() {
			m.Report = &l.report
		}
		known = append(known, m)
	}
	return known, nil
}
