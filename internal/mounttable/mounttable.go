package mounttable

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

// Entry is a line of the mount table.
type Entry struct {
	Dir    string
	Device string // major:minor
	Type   string // "fuse.rdmafs"
	Source string
	UID    uint32 // who mounted it, of a FUSE mount
	// ReadOnly: the mount, or all of its file system, is read-only.
	ReadOnly bool
}

// Read reads the mount table. What is on top of a directory comes after what it
// covers. No file system is asked: a stat of a mount
// point would wait for a server that may be gone.
func Read() ([]Entry, error) { return read("self") }

// Of is Read in the mount namespace of a process.
func Of(pid int) ([]Entry, error) { return read(strconv.Itoa(pid)) }

func read(process string) (all []Entry, err error) {
	f, err := os.Open("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(f)
}

// maxLine bounds a line of the mount table, in bytes: two paths and their
// options, each of a page at most, with every byte escaped.
const maxLine = 1 << 18

// parse reads a mount table. Malformed lines are skipped.
func parse(table io.Reader) (all []Entry, err error) {
	s := bufio.NewScanner(table)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		// 36 35 98:0 / /mnt rw,noatime … - ext3 /dev/root rw (proc_pid_mountinfo(5))
		w := strings.Fields(s.Text())
		sep := slices.Index(w, "-")
		if len(w) < 6 || sep < 0 || len(w) < sep+3 {
			continue
		}
		all = append(all, Entry{Dir: Unescape(w[4]), Device: w[2], Type: w[sep+1],
			Source: Unescape(w[sep+2]), UID: userOf(w[len(w)-1]), ReadOnly: readOnly(w[5]) || readOnly(w[len(w)-1])})
	}
	return all, s.Err()
}

// readOnly reports whether options of a mount have ro, which comes first.
func readOnly(options string) bool { return options == "ro" || strings.HasPrefix(options, "ro,") }

// Find is the mount at dir, an absolute path without symbolic links; ok is
// false when none is there.
func Find(dir string) (m Entry, ok bool, err error) {
	all, err := Read()
	for _, e := range slices.Backward(all) {
		if e.Dir == dir {
			return e, true, err
		}
	}
	return m, false, err
}

var (
	// ErrDetached: a file system is no longer in the mount table. Processes with
	// files open on it go on using it.
	ErrDetached = errors.New("the mount is detached already")
	// ErrCovered: another file system was mounted on top of it.
	ErrCovered = errors.New("another file system is mounted on top of it")
)

// Locate finds where in a table the file system with a device number can be
// unmounted, at dir before anywhere else: it may be bound to other places.
func Locate(device, dir string, all []Entry) (string, error) {
	top := make(map[string]Entry, len(all))
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

// userOf finds user_id= in the options of a FUSE file system.
func userOf(options string) uint32 {
	for word := range strings.SplitSeq(options, ",") {
		if v, is := strings.CutPrefix(word, "user_id="); is {
			if n, err := strconv.ParseUint(v, 10, 32); err == nil {
				return uint32(n)
			}
		}
	}
	return 0
}

// Unescape undoes the octal escapes of the mount table.
func Unescape(s string) string {
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

// Under is the mount that a path, absolute and without symbolic links, lies on.
func Under(path string, table []Entry) (found Entry) {
	for _, m := range table {
		in := path == m.Dir || strings.HasPrefix(path, strings.TrimSuffix(m.Dir, "/")+"/")
		if in && len(m.Dir) >= len(found.Dir) {
			found = m
		}
	}
	return found
}

// DirOf is where in a table a file system with a device number is mounted first.
func DirOf(device string, table []Entry) (dir string, found bool) {
	for _, m := range table {
		if m.Device == device {
			return m.Dir, true
		}
	}
	return "", false
}
