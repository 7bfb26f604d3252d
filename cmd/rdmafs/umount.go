package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/plain"
	"github.com/rdmafs/rdmafs/fs"
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
	m, ok, err := fs.FindMount(dir)
	switch {
	case err != nil:
		return err
	case !ok && force:
		// A umount that waits for the server has detached it already.
		return abandon(dir)
	case !ok:
		return fmt.Errorf("%s is not mounted", dir)
	case m.Type != "fuse.rdmafs":
		return fmt.Errorf("%s is a mount of type %s, not of rdmafs (use umount)", dir, m.Type)
	}
	if lazy && !force {
		return detach(dir, true)
	}
	// It holds us before it can end: how it ends is not missed.
	daemon, err := hold(dir, "wait "+m.Device)
	var hung *stuckError
	switch {
	case errors.As(err, &hung) && force:
		if err := detach(dir, true); err != nil {
			return err
		}
		return hung.unmounted(dir)
	case errors.As(err, &hung):
		return fmt.Errorf("%s: not unmounted: %w (rdmafs umount -f %s unmounts it all the same, and what is not written yet may be lost)", dir, err, dir)
	case err != nil && !errors.Is(err, errNoDaemon):
		return err
	}
	if daemon != nil {
		defer daemon.Close()
	}
	if force {
		_, _ = ask(dir, "abort") // without a daemon there is nothing to fail
		daemon.hurry()
	}
	unseen := daemon == nil && !force && served(dir)
	if err := detach(dir, lazy || force); err != nil {
		return err
	}
	if unseen {
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

// served says that a mount has a daemon, which does not answer as it should.
func served(dir string) bool {
	at, err := look(dir, false)
	return err == nil && at.errno == 0
}

// abandon ends the daemon of a mount that is detached.
func abandon(dir string) error {
	daemon, err := hold(dir, request(dir, "wait"))
	var hung *stuckError
	if errors.As(err, &hung) {
		return hung.unmounted(dir)
	}
	if err != nil {
		return fmt.Errorf("%s is not mounted", dir)
	}
	defer daemon.Close()
	if _, err := ask(dir, "abort"); err != nil {
		return err
	}
	daemon.hurry()
	return awaitEnd(dir, daemon)
}

// awaitEnd returns when the daemon has ended, with what it says went wrong.
func awaitEnd(dir string, daemon *held) error {
	wrong, err := daemon.end()
	var hung *stuckError
	switch {
	case wrong != "":
		return fmt.Errorf("%s: unmounted, but %s", dir, wrong)
	case errors.As(err, &hung):
		return hung.unmounted(dir)
	}
	return err
}

// unmountOwn unmounts a mount of this process, never one that was mounted since
// in its place. It fails while files are open.
func unmountOwn(f *fs.FS) error {
	dir, err := f.Place()
	if err != nil {
		return err
	}
	return detach(dir, false)
}

func detach(dir string, lazy bool) error {
	if mayMount() {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err := unix.Unmount(dir, flags)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s is busy: files on it are open (fuser -m %s shows whose; -l detaches it all the same)", dir, dir)
		}
		if err == nil || !errors.Is(err, unix.EPERM) {
			return wrapPath("unmount", dir, err)
		}
	}
	args := []string{"-u", dir}
	if lazy {
		args = []string{"-u", "-z", dir}
	}
	for _, tool := range []string{"fusermount3", "fusermount"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s", strings.TrimSpace(oneLine(errors.New(string(out)))))
		}
		return nil
	}
	return fmt.Errorf("cannot unmount %s: fusermount3 is not in PATH (install the package fuse3)", dir)
}

func wrapPath(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}
