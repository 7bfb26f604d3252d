package fs

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

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

// raiseReadAhead raises the kernel's read-ahead of the mount at dir. Only root
// may; without it our own read-ahead has to do.
func raiseReadAhead(dir string, kib int) {
	m, ok, err := FindMount(dir)
	if !ok || err != nil {
		return
	}
	path := "/sys/class/bdi/" + m.Device + "/read_ahead_kb"
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && now < kib {
		_ = os.WriteFile(path, []byte(strconv.Itoa(kib)), 0)
	}
}

// MountEntry is a line of the mount table.
type MountEntry struct {
	Device string // major:minor
	Type   string // "fuse.rdmafs"
	Source string
	UID    uint32 // who mounted it, of a FUSE mount
}

// FindMount is the mount at dir, an absolute path without symbolic links; ok is
// false when none is there. It reads the mount table, for a stat of the mount
// point would wait for a server that may be gone.
func FindMount(dir string) (m MountEntry, ok bool, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return m, false, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		// 36 35 98:0 / /mnt rw,noatime … - ext3 /dev/root rw (proc_pid_mountinfo(5))
		w := strings.Fields(s.Text())
		sep := slices.Index(w, "-")
		if len(w) < 5 || sep < 0 || len(w) < sep+3 || unescapeMount(w[4]) != dir {
			continue
		}
		m, ok = MountEntry{UID: mountUser(w[len(w)-1]), Device: w[2], Type: w[sep+1], Source: unescapeMount(w[sep+2])}, true // the last one lies on top
	}
	return m, ok, s.Err()
}

// mountUser finds user_id= in the options of a FUSE file system.
func mountUser(options string) uint32 {
	for word := range strings.SplitSeq(options, ",") {
		if v, is := strings.CutPrefix(word, "user_id="); is {
			if n, err := strconv.ParseUint(v, 10, 32); err == nil {
				return uint32(n)
			}
		}
	}
	return 0
}

// unescapeMount undoes the octal escapes of the mount table.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			var c int
			if _, err := fmt.Sscanf(s[i+1:i+4], "%3o", &c); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
