// Command rdmafs mounts NFS exports over RDMA from user space.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/filecmd"
	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/plain"
)

// Exit codes of mount(8).
const (
	exitUsage       = 1
	exitSystem      = 2
	exitInterrupted = 8
	exitFail        = 32
)

// exitError is an error with the exit code it deserves.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

func main() {
	if look.Child() {
		return
	}
	os.Exit(run(os.Args[0], os.Args[1:]))
}

// run runs the command line of a program by a name.
func run(name string, args []string) int {
	args, err := asHelper(name, args)
	if err == nil {
		root := newRootCommand(args)
		root.SetArgs(args)
		err = root.Execute()
	}
	if err == nil {
		return 0
	}
	plain.Fprintf(os.Stderr, "rdmafs: %s\n", plain.OneLine(err))
	var e *exitError
	var f *filecmd.ExitError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &f):
		return f.Code
	}
	return exitUsage
}

// newRootCommand is the command line of rdmafs. A daemon is started with args.
func newRootCommand(args []string) *cobra.Command {
	mount := newMountCommand(args)
	root := &cobra.Command{
		Use:   "rdmafs",
		Short: "Mount NFS exports over RDMA, without a kernel module and without root",
		Long: `rdmafs mounts NFS exports over RDMA, without a kernel module and without root.

"rdmafs SERVER:/EXPORT MOUNTPOINT -o OPTIONS", as mount(8) calls it for the type
fuse.rdmafs, means "rdmafs mount".`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		Version:       newBuildReport().String(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if len(args) == 1 && !strings.Contains(args[0], ":") {
				return withCode(exitUsage, fmt.Errorf("unknown command %q (rdmafs --help lists the commands)", args[0]))
			}
			return mount.RunE(cmd, args)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withCode(exitUsage, fmt.Errorf("%w (%s --help lists what there is)", err, cmd.CommandPath()))
	})
	root.SetVersionTemplate("{{.Version}}")
	// The same variables as of the mount command: see newMountCommand.
	root.Flags().AddFlagSet(mount.Flags())
	root.AddCommand(mount, newUmountCommand(), newSyncCommand(), newStatusCommand(), newStatsCommand(), newListCommand(), newTopCommand(), newLogCommand(), newExporterCommand(), newDevicesCommand(), newDoctorCommand(), newBenchCommand(), newVersionCommand(), newCompletionCommand())
	root.AddCommand(filecmd.Commands()...)
	addCompletions(root)
	return root
}
