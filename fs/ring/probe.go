package ring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	switchPath   = "/sys/module/fuse/parameters/enable_uring"
	disabledPath = "/proc/sys/kernel/io_uring_disabled"
	possiblePath = "/sys/devices/system/cpu/possible"
)

// Unavailable says why a mount cannot be served by rings, and what would help.
type Unavailable struct{ Why, Remedy string }

func (u *Unavailable) Error() string { return u.Why + " (" + u.Remedy + ")" }

// Available returns nil if a mount can be served by rings, as far as can be seen
// without one, or an *Unavailable.
func Available() error {
	b, err := os.ReadFile(switchPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Unavailable{"this kernel has no FUSE over io_uring", "it needs Linux 6.14 or later with CONFIG_FUSE_IO_URING, and the module fuse loaded"}
	case err != nil:
		return &Unavailable{err.Error(), "whether FUSE over io_uring is enabled cannot be seen"}
	case strings.TrimSpace(string(b)) != "Y":
		return &Unavailable{"FUSE over io_uring is switched off", "as root: echo Y > " + switchPath + "; or boot with fuse.enable_uring=1"}
	}
	r, err := newURing()
	if err == nil {
		r.close()
		return nil
	}
	if errno, ok := err.(unix.Errno); ok {
		return explainSetup(errno)
	}
	return &Unavailable{err.Error(), "this kernel's io_uring is not what rdmafs knows"}
}

// explainSetup says why io_uring_setup failed.
func explainSetup(errno unix.Errno) *Unavailable {
	why := "io_uring_setup: " + errno.Error()
	switch errno {
	case unix.EPERM, unix.EACCES:
		if b, err := os.ReadFile(disabledPath); err == nil && strings.TrimSpace(string(b)) != "0" {
			return &Unavailable{why, "kernel.io_uring_disabled is " + strings.TrimSpace(string(b)) +
				": 1 allows it to root and to the group of kernel.io_uring_group, 0 to everybody"}
		}
		return &Unavailable{why, "seccomp or a security module forbids it, as container runtimes do: allow io_uring_setup, io_uring_enter and io_uring_register"}
	case unix.ENOSYS:
		return &Unavailable{why, "the kernel was built without io_uring, or seccomp hides it, as container runtimes do"}
	case unix.EINVAL:
		return &Unavailable{why, "it needs Linux 6.14 or later"}
	case unix.EMFILE, unix.ENFILE:
		return &Unavailable{why, "each request that is served at once needs a file descriptor: raise ulimit -n"}
	}
	return &Unavailable{why, "io_uring cannot be used"}
}

// possibleCPUs is how many queues the kernel has.
func possibleCPUs() (int, error) {
	b, err := os.ReadFile(possiblePath)
	if err != nil {
		return 0, err
	}
	n, err := countCPUs(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", possiblePath, err)
	}
	return n, nil
}

// countCPUs counts the CPUs of a list such as "0-3,8".
func countCPUs(list string) (n int, err error) {
	const maxCPUs = 1 << 16 // a queue's number has 16 bits
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		if err != nil {
			return 0, err
		}
		to, err := strconv.ParseUint(high, 10, 16)
		if err != nil {
			return 0, err
		}
		if to < from {
			return 0, fmt.Errorf("not a list of CPUs: %q", list)
		}
		n += int(to-from) + 1
		if n > maxCPUs {
			return 0, fmt.Errorf("too many CPUs: %q", list)
		}
	}
	return n, nil
}
