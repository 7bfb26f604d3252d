package mount

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/privilege"
)

// Check looks for what this user needs of this machine to mount, and notes in o what
// may not work.
func Check(o *options.Options) error {
	if _, err := privilege.Helper(); err != nil && !privilege.MayMount() {
		return fmt.Errorf("mounting without CAP_SYS_ADMIN needs fusermount3: %w", err)
	}
	if _, err := privilege.Helper(); err != nil && o.AutoUnmount {
		return fmt.Errorf("auto_unmount needs fusermount3, which unmounts: %w", err)
	}
	if o.AutoUnmount && !o.AllowOther && os.Geteuid() != 0 {
		o.Notes = append(o.Notes, "auto_unmount without allow_other has no effect with every fusermount3 (libfuse issues 586, 1491): it must be able to look at the mount, as root")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("/dev/fuse does not exist (load the kernel module fuse, or give the container the device)")
	}
	if err == nil {
		f.Close()
	}
	if o.AllowOther && !privilege.MayMount() && !fuseConfAllowsOther() {
		return errors.New("allow_other is not permitted to ordinary users here (root may add the line user_allow_other to /etc/fuse.conf)")
	}
	return nil
}

// fuseConfAllowsOther tells whether fusermount3 takes allow_other from
// ordinary users.
func fuseConfAllowsOther() bool {
	f, err := os.Open("/etc/fuse.conf")
	if err != nil {
		return false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if strings.TrimSpace(s.Text()) == "user_allow_other" {
			return true
		}
	}
	return false
}
