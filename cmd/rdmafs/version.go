package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/version"
)

// buildReport is what "rdmafs version --json" prints.
type buildReport struct {
	version.Info
	// Providers of RDMA that are built in, as -o rdma= names them. Whether this
	// machine has what they need, "rdmafs doctor" says.
	Providers []string `json:"providers"`
}

func newBuildReport() buildReport {
	r := buildReport{Info: version.Read()}
	for k := range providers.All {
		if p := &providers.All[k]; p.Built() {
			r.Providers = append(r.Providers, p.Name)
		}
	}
	return r
}

// String is the report for people.
func (r buildReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rdmafs %s\n", r.Version)
	commit := "unknown: built outside a repository"
	if r.Commit != "" {
		commit = r.Commit + " of " + r.CommitTime
		if r.Modified {
			commit += ", modified"
		}
	}
	cgo := "without cgo"
	if r.Cgo {
		cgo = "with cgo"
	}
	fmt.Fprintf(&b, "commit:    %s\n", commit)
	fmt.Fprintf(&b, "built by:  %s, %s, %s\n", r.Go, r.Platform, cgo)
	fmt.Fprintf(&b, "providers: %s\n", strings.Join(r.Providers, ", "))
	return b.String()
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which build of rdmafs this is",
		Long: `Show which build of rdmafs this is: its version, the commit and whether the sources
were modified, the Go release, and the providers of RDMA that are built in. The time of
the build is not recorded, so that equal sources make equal programs.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withCode(exitUsage, fmt.Errorf("version takes no argument, got %q", args[0]))
			}
			r := newBuildReport()
			if asJSON {
				return withCode(exitSystem, plain.WriteJSON(cmd.OutOrStdout(), r))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), r)
			return withCode(exitSystem, err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
