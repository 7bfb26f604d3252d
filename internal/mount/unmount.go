package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/privilege"
)

// Unmount unmounts a mount of this process, never one that was mounted since
// in its place. It fails while files are open. A mount that another process has made, and
// that this one may not unmount, is as one that is detached: mounttable.ErrDetached.
func Unmount(f *fs.FS) error {
	dir, err := f.Place()
	if err != nil {
		return err
	}
	if f.Given() && !mayUnmount() {
		return mounttable.ErrDetached
	}
	return Detach(dir, false)
}

// Force ends the FUSE connection of the mount at dir, of which device is the number
// in the mount table, and detaches it. All requests fail. It is for a daemon that
// does not answer: one that was killed while a thread of it waits in the kernel for a
// request of its own cannot end otherwise.
func Force(dir, device string) error {
	if _, minor, ok := strings.Cut(device, ":"); ok {
		// Where fusectl is mounted, also for the ordinary user whose mount it is.
		_ = os.WriteFile(filepath.Join("/sys/fs/fuse/connections", minor, "abort"), []byte("1"), 0)
	}
	if privilege.MayMount() && unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_FORCE|unix.MNT_DETACH) == nil {
		return nil
	}
	return Detach(dir, true)
}

// Detach unmounts what is mounted at dir. Unless lazy it fails while files are
// open.
func Detach(dir string, lazy bool) error {
	if privilege.MayMount() {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err := unix.Unmount(dir, flags)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s is busy: files on it are open (fuser -m %s shows whose; -l detaches it all the same)", dir, dir)
		case !errors.Is(err, unix.EPERM):
			return &os.PathError{Op: "unmount", Path: dir, Err: err}
		}
	}
	args := []string{"-u", dir}
	if lazy {
		args = []string{"-u", "-z", dir}
	}
	tool, err := privilege.Helper()
	if err != nil {
		return fmt.Errorf("cannot unmount %s: %w", dir, err)
	}
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s", strings.TrimSpace(plain.OneLine(errors.New(string(out)))))
	}
	return nil
}
