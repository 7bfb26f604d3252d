package mount

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// isolatedEnv marks a process that Isolate has started anew.
const isolatedEnv = "RDMAFS_TEST_ISOLATED"

// Isolate puts this process into a mount namespace of its own, if it is root. Every
// other namespace that is made on the machine, by a container, a service, unshare -m,
// begins with copies of all mounts of the one it comes from. A file system of which there is
// a copy does not end with its umount, so that tests of the end of mounts would
// fail at random. Isolate belongs at the beginning of TestMain: it executes this program
// anew, as a namespace belongs to a thread.
func Isolate() {
	if os.Geteuid() != 0 || os.Getenv(isolatedEnv) != "" {
		return
	}
	if err := isolate(); err != nil {
		fmt.Fprintf(os.Stderr, "tests are not isolated from what others do with mounts: %v\n", err)
	}
}

func isolate() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// Nothing is changed if this fails.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	// Copies of mounts that others test would be kept from ending by this one.
	all, err := mounttable.Of(unix.Gettid())
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Type == "fuse.rdmafs" {
			_ = unix.Unmount(m.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	return os.NewSyscallError("execve", unix.Exec(exe, os.Args, append(os.Environ(), isolatedEnv+"=1")))
}
