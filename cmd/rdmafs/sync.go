package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/filecmd"
	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

const syncHelp = `Have everything written through a mount sent to the server and committed to its stable
storage, and return when that is done. The exit code is 0 only if nothing failed.

sync(1), sync(2) and syncfs(2) do not do this: the kernel does not pass them on to a FUSE
file system. What a program has stored through a shared mapping is known to the daemon
once the kernel has written it back; msync(2) sees to that.`

func newSyncCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync MOUNTPOINT | sync SOURCE TARGET",
		Short: "Make what was written through a mount safe, or one tree like another",
		Long:  syncHelp + "\n\n" + filecmd.SyncHelp,
	}
	filecmd.SyncCommand(cmd, func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return withCode(exitUsage, fmt.Errorf("sync wants one MOUNTPOINT, or SOURCE and TARGET"))
		}
		dir, err := mountPointArg(args[0])
		if err != nil {
			return withCode(exitUsage, err)
		}
		return withCode(exitFail, syncMount(dir))
	})
	return cmd
}

// syncMount makes safe what was written through the mount at dir.
func syncMount(dir string) error {
	m, ok, err := mounttable.Find(dir)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: nothing is mounted there", dir)
	}
	failed, err := control.Sync(dir, m.Device)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w%s", dir, err, remains(dir, err))
	case failed != "":
		return fmt.Errorf("%s: %s", dir, failed)
	}
	return nil
}
