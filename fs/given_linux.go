package fs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// The device number of /dev/fuse (FUSE_MINOR of linux/miscdevice.h).
const (
	fuseMajor = 10
	fuseMinor = 229
)

// CheckGiven reports why a descriptor that this process was started with cannot be
// served: it must be one of /dev/fuse that somebody has mounted and nobody has served.
func CheckGiven(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("is not open in this process: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(fuseMajor, fuseMinor) {
		return errors.New("is not open on " + fuseDevice)
	}
	// The kernel queues its first request with the mount, and fails a poll before that.
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(poll, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("poll", err)
		}
		break
	}
	switch got := poll[0].Revents; {
	case got&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
		return errors.New("is not mounted, or not any more: who opens it mounts it, with fd= of mount(2)")
	case got&unix.POLLIN == 0:
		return errors.New("is served by a process already")
	}
	return nil
}

// GivenNumber is the device number of the mount whose connection a descriptor is, as the
// mount table has it; "" where the kernel does not say (before Linux 6.18).
func GivenNumber(fd int) string {
	const label = "fuse_connection:"
	const minorBits = 20 // of the kernel's own dev_t
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, label); is {
			n, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 32)
			if err != nil {
				return ""
			}
			return fmt.Sprintf("%d:%d", n>>minorBits, n&(1<<minorBits-1))
		}
	}
	return ""
}

// given is the plan's descriptor where another process has mounted it.
func (p *mountPlan) given() (*os.File, error) {
	if err := CheckGiven(int(p.device.Fd())); err != nil {
		return nil, fmt.Errorf("descriptor %d %w", p.device.Fd(), err)
	}
	return p.device, nil
}

// findGiven finds where a mount is that another process has made. One that this mount
// namespace does not have is served all the same.
func (f *FS) findGiven() {
	number := GivenNumber(int(f.device.Fd()))
	f.number.Store(&number)
	if number == "" {
		return
	}
	if all, err := mounttable.Read(); err == nil {
		if dir, err := mounttable.Locate(number, f.dir, all); err == nil {
			f.dir = dir
		}
	}
}

// Given reports whether another process has mounted f: see Config.Device.
func (f *FS) Given() bool { return f.cfg.Device != nil }
