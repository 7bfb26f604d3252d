package fs

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// directMountReadOnly is the flags of mount(2) that fusermount3 would use, with
// read-only: mount(2) knows "ro" as a flag only, fusermount3 as a word only.
const directMountReadOnly = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_RDONLY

func withoutReadOnly(opts []string, direct bool) []string {
	if !direct {
		return opts
	}
	return slices.DeleteFunc(slices.Clone(opts), func(o string) bool { return o == "ro" })
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
		m, ok = MountEntry{Device: w[2], Type: w[sep+1], Source: unescapeMount(w[sep+2])}, true // the last one lies on top
	}
	return m, ok, s.Err()
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
