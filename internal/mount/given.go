package mount

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/privilege"
)

// Target is where a session is attached.
type Target struct {
	// Dir is a directory; with Device, what stands for it where its mount is not seen.
	Dir string
	// Device, if set, is a descriptor of /dev/fuse that another process has mounted.
	Device *os.File
}

const givenPrefix = "/dev/fd/"

// GivenFD is the descriptor that a mount point stands for: /dev/fd/N, as libfuse has it.
func GivenFD(dir string) (fd int, is bool) {
	rest, is := strings.CutPrefix(dir, givenPrefix)
	n, err := strconv.Atoi(rest)
	return n, is && err == nil && n >= 0 && rest == strconv.Itoa(n)
}

// Given takes a descriptor that this process was started with. No process that this one
// starts has it. The error says what is wrong with it or with the options.
func Given(fd int, o *options.Options) (t Target, err error) {
	name := givenPrefix + strconv.Itoa(fd)
	if err := fs.CheckGiven(fd); err != nil {
		return t, fmt.Errorf("mount point %s %w", name, err)
	}
	switch {
	case o.AutoUnmount:
		return t, fmt.Errorf("auto_unmount: %s is mounted by another process, which unmounts it; leave it out", name)
	case o.DefaultPermissions:
		return t, fmt.Errorf("default_permissions: %s is mounted by another process, to whose mount(2) it belongs; leave it out", name)
	}
	if len(o.Fuse) > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%s: the process that mounted %s has decided that", strings.Join(o.Fuse, ","), name))
	}
	unix.CloseOnExec(fd)
	t = Target{Dir: name, Device: os.NewFile(uintptr(fd), name)}
	if number := fs.GivenNumber(fd); number != "" {
		if all, err := mounttable.Read(); err == nil {
			if dir, err := mounttable.Locate(number, "", all); err == nil {
				t.Dir = dir
			}
		}
	}
	return t, nil
}

// mayUnmount reports whether this process could unmount what it did not mount itself.
func mayUnmount() bool {
	_, err := privilege.Helper()
	return privilege.MayMount() || err == nil && privilege.HelperObstacle() == ""
}
