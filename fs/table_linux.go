package fs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// MountEntry is a line of the mount table.
type MountEntry struct {
	Dir    string
	Device string // major:minor
	Type   string // "fuse.rdmafs"
	Source string
	UID    uint32 // who mounted it, of a FUSE mount
}

// Mounts is the mount table, what lies on top of a directory behind what it
// covers. To read it asks nobody: a stat of a mount point would wait for a
// server that may be gone.
func Mounts() ([]MountEntry, error) { return mountTable("self") }

// MountsOf is Mounts in the mount namespace of a process.
func MountsOf(pid int) ([]MountEntry, error) { return mountTable(strconv.Itoa(pid)) }

func mountTable(process string) (all []MountEntry, err error) {
	f, err := os.Open("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMounts(f)
}

// maxMountLine bounds a line of the mount table, in bytes: two paths and their
// options, each of a page at most, with every byte escaped.
const maxMountLine = 1 << 18

// parseMounts reads a mount table. A line that is none is left out.
func parseMounts(table io.Reader) (all []MountEntry, err error) {
	s := bufio.NewScanner(table)
	s.Buffer(nil, maxMountLine)
	for s.Scan() {
		// 36 35 98:0 / /mnt rw,noatime … - ext3 /dev/root rw (proc_pid_mountinfo(5))
		w := strings.Fields(s.Text())
		sep := slices.Index(w, "-")
		if len(w) < 5 || sep < 0 || len(w) < sep+3 {
			continue
		}
		all = append(all, MountEntry{Dir: unescapeMount(w[4]), Device: w[2], Type: w[sep+1],
			Source: unescapeMount(w[sep+2]), UID: mountUser(w[len(w)-1])})
	}
	return all, s.Err()
}

// FindMount is the mount at dir, an absolute path without symbolic links; ok is
// false when none is there.
func FindMount(dir string) (m MountEntry, ok bool, err error) {
	all, err := Mounts()
	for _, e := range slices.Backward(all) {
		if e.Dir == dir {
			return e, true, err
		}
	}
	return m, false, err
}

var (
	// ErrDetached: a file system is in the mount table no more. Whoever has
	// files open on it goes on using it.
	ErrDetached = errors.New("the mount is detached already")
	// ErrCovered: another file system was mounted on top of it.
	ErrCovered = errors.New("another file system is mounted on top of it")
)

// Place is where this very mount can be unmounted, which need not be where it
// was mounted. A device number is a mount's own for as long as anybody uses it.
func (f *FS) Place() (dir string, err error) {
	if f.number == "" {
		return "", errors.New("the mount table did not show it")
	}
	all, err := Mounts()
	if err != nil {
		return "", err
	}
	return placeOf(f.number, f.dir, all)
}

// placeOf looks for a device in the mount table, at dir before anywhere else:
// it may be bound to other places.
func placeOf(device, dir string, all []MountEntry) (string, error) {
	top := make(map[string]MountEntry, len(all))
	err := ErrDetached
	for _, e := range all {
		top[e.Dir] = e
		if e.Device == device {
			err = ErrCovered
		}
	}
	if top[dir].Device == device {
		return dir, nil
	}
	for _, e := range all {
		if e.Device == device && top[e.Dir].Device == device {
			return e.Dir, nil
		}
	}
	return "", err
}

// raiseReadAhead raises the kernel's read-ahead of a mount. Only root may;
// without it our own read-ahead has to do.
func raiseReadAhead(device string, kib int) {
	path := "/sys/class/bdi/" + device + "/read_ahead_kb"
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && now < kib {
		_ = os.WriteFile(path, []byte(strconv.Itoa(kib)), 0)
	}
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
