package fs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mountFlags are the words that mount(2) knows as flags only. The bits are
// cleared before they are set.
var mountFlags = map[string]struct{ clear, set uintptr }{
	"ro": {set: unix.MS_RDONLY}, "rw": {clear: unix.MS_RDONLY},
	"suid": {clear: unix.MS_NOSUID}, "nosuid": {set: unix.MS_NOSUID},
	"dev": {clear: unix.MS_NODEV}, "nodev": {set: unix.MS_NODEV},
	"exec": {clear: unix.MS_NOEXEC}, "noexec": {set: unix.MS_NOEXEC},
	"async": {clear: unix.MS_SYNCHRONOUS}, "sync": {set: unix.MS_SYNCHRONOUS},
	"dirsync":  {set: unix.MS_DIRSYNC},
	"atime":    {clear: unix.MS_NOATIME},
	"noatime":  {set: unix.MS_NOATIME},
	"relatime": {set: unix.MS_RELATIME},
}

// directMount has go-fuse call mount(2) itself. Words go as flags; those that
// go-fuse has defaults for go as words too, since flags of 0 mean its defaults.
func directMount(o *fuse.MountOptions, words []string) {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	o.DirectMountStrict, o.Options = true, nil
	for _, w := range words {
		f, ok := mountFlags[w]
		if ok {
			flags = flags&^f.clear | f.set
		}
		if !ok || w == "suid" || w == "dev" {
			o.Options = append(o.Options, w)
		}
	}
	o.DirectMountFlags = flags
}

// helperMount has go-fuse run fusermount3, which knows no relatime: it is the
// kernel's default.
func helperMount(o *fuse.MountOptions, words []string) {
	o.DirectMountStrict, o.DirectMountFlags = false, 0
	o.Options = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "relatime" })
}
