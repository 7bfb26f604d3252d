package filecmd

import (
	"io/fs"
	"os/user"
	"strconv"
	"sync"
	"time"
)

// modeString is a mode as ls -l puts it.
func modeString(m fs.FileMode) string {
	const rwx = "rwxrwxrwx"
	b := []byte("----------")
	for _, t := range []struct {
		is   fs.FileMode
		char byte
	}{
		{fs.ModeDir, 'd'}, {fs.ModeSymlink, 'l'}, {fs.ModeNamedPipe, 'p'}, {fs.ModeSocket, 's'},
		{fs.ModeDevice, 'b'}, {fs.ModeCharDevice, 'c'}, {fs.ModeIrregular, '?'},
	} {
		if m&t.is != 0 {
			b[0] = t.char
		}
	}
	for k := range rwx {
		if m&(1<<(8-k)) != 0 {
			b[1+k] = rwx[k]
		}
	}
	for _, s := range []struct {
		is         fs.FileMode
		at         int
		with, bare byte // with and without the execute bit
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		switch {
		case m&s.is == 0:
		case b[s.at] == 'x':
			b[s.at] = s.with
		default:
			b[s.at] = s.bare
		}
	}
	return string(b)
}

// specialBits are the bits of a mode beyond the permissions, as chmod(2) has them.
var specialBits = [...]struct {
	is  fs.FileMode
	bit uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

// unixMode is a mode as chmod(2) has it.
func unixMode(m fs.FileMode) uint32 {
	n := uint32(m.Perm())
	for _, s := range specialBits {
		if m&s.is != 0 {
			n |= s.bit
		}
	}
	return n
}

// goMode is a mode of chmod(2) as package fs has it.
func goMode(n uint32) fs.FileMode {
	m := fs.FileMode(n) & fs.ModePerm
	for _, s := range specialBits {
		if n&s.bit != 0 {
			m |= s.is
		}
	}
	return m
}

// typeName is the type of a file as stat(1) puts it.
func typeName(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsRegular() && info.Size() == 0:
		return "regular empty file"
	case m.IsRegular():
		return "regular file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeCharDevice != 0:
		return "character special file"
	case m&fs.ModeDevice != 0:
		return "block special file"
	}
	return "weird file"
}

// nameCache keeps the names that numbers of users or groups have on this machine.
type nameCache struct {
	find func(id string) (string, bool)
	mu   sync.Mutex
	seen map[int]string
}

var (
	users = nameCache{find: func(id string) (string, bool) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", false
		}
		return u.Username, true
	}, seen: map[int]string{}}
	groups = nameCache{find: func(id string) (string, bool) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", false
		}
		return g.Name, true
	}, seen: map[int]string{}}
)

// of is the name of a number, or the number.
func (c *nameCache) of(id int, otherwise string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, known := c.seen[id]
	if !known {
		var ok bool
		if name, ok = c.find(strconv.Itoa(id)); !ok {
			name = ""
		}
		c.seen[id] = name
	}
	if name == "" {
		return otherwise
	}
	return name
}

// halfYear is how old a time may be to be shown with its hour.
const halfYear = 31556952 * time.Second / 2

// listTime is a time as ls -l puts it.
func listTime(t, now time.Time) string {
	if age := now.Sub(t); age > halfYear || age < 0 {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}
