package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/serve"
)

func newUmountCommand() *cobra.Command {
	var force, lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "Unmount, once everything written is safe on the server",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("umount wants one MOUNTPOINT"))
			}
			dir, err := mountPointArg(args[0])
			if err != nil {
				return withCode(exitUsage, err)
			}
			return withCode(exitFail, umount(dir, force, lazy))
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "fail what waits for the server; data not yet written there is lost")
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "detach now, end when the last file is closed")
	return cmd
}

// umount detaches the mount at dir and, unless lazy, waits until its daemon
// has written everything and ended.
func umount(dir string, force, lazy bool) error {
	m, ok, err := mounttable.Find(dir)
	switch {
	case err != nil:
		return err
	case !ok && force:
		// Another umount, which waits for the server, has detached it already.
		return endDetached(dir)
	case !ok:
		return fmt.Errorf("%s is not mounted", dir)
	case m.Type != "fuse.rdmafs":
		return fmt.Errorf("%s is a mount of type %s, not of rdmafs (use umount)", dir, m.Type)
	}
	if lazy && !force {
		return mount.Detach(dir, true)
	}
	// The daemon holds the connection from before it can end, so that how it ends
	// is not missed.
	daemon, err := control.Wait(dir, m.Device)
	var hung *control.StuckError
	switch {
	case errors.As(err, &hung) && force:
		if err := mount.Force(dir, m.Device); err != nil {
			return err
		}
		if hung.Ends(serve.ForcedGrace) {
			return nil
		}
		return stuckUnmounted(hung, dir)
	case errors.As(err, &hung):
		return fmt.Errorf("%s: not unmounted: %w (rdmafs umount -f %s unmounts it all the same, and what is not written yet may be lost)", dir, err, dir)
	case err != nil && !errors.Is(err, control.ErrNoDaemon):
		return err
	}
	if daemon != nil {
		defer daemon.Close()
	}
	if force {
		_ = control.Abort(dir) // without a daemon there is nothing to fail
		if daemon != nil {
			daemon.EndWithin(serve.ForcedGrace + control.AnswerTimeout)
		}
	}
	unreached := daemon == nil && !force && served(dir)
	if err := mount.Detach(dir, lazy || force); err != nil {
		return err
	}
	if unreached {
		plain.Fprintf(os.Stderr, "rdmafs: note: %s is unmounted, but its daemon has its socket elsewhere and could not be asked (was XDG_RUNTIME_DIR another when it was mounted?): it may still be writing\n", dir)
	}
	if daemon == nil || lazy {
		return nil
	}
	if force {
		return awaitEnd(dir, daemon)
	}
	return awaitWritten(dir, m.Device, daemon)
}

// served reports whether a mount has a daemon, of which no control socket was found.
func served(dir string) bool {
	at, err := look.Path(dir, false)
	return err == nil && at.Errno == 0
}

// endDetached ends the daemon of a mount that is detached already.
func endDetached(dir string) error {
	daemon, err := control.Wait(dir, "")
	var hung *control.StuckError
	if errors.As(err, &hung) {
		return stuckUnmounted(hung, dir)
	}
	if err != nil {
		return fmt.Errorf("%s is not mounted", dir)
	}
	defer daemon.Close()
	if err := control.Abort(dir); err != nil {
		return err
	}
	daemon.EndWithin(serve.ForcedGrace + control.AnswerTimeout)
	return awaitEnd(dir, daemon)
}

// awaitEnd returns when the daemon has ended, with what it says went wrong.
func awaitEnd(dir string, daemon *control.Held) error {
	failed, err := daemon.End()
	var hung *control.StuckError
	switch {
	case failed != "":
		return fmt.Errorf("%s: unmounted, but %s", dir, failed)
	case errors.As(err, &hung):
		return stuckUnmounted(hung, dir)
	}
	return err
}

// stuckUnmounted is the error of a daemon that does not answer when its mount was
// detached all the same.
func stuckUnmounted(e *control.StuckError, dir string) error {
	return fmt.Errorf("%s: unmounted, but %w (end it with: kill -9 %d)", dir, e, e.PID)
}
