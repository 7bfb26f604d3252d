package vfs

import (
	"encoding/binary"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxWalk bounds the entries that one walk looks at.
	maxWalk = 1 << 24
	// missFor is how long a file that a walk did not find is not looked for
	// again, and maxMissed how many such are remembered.
	missFor   = 2 * time.Second
	maxMissed = 1024
)

func (t *Tree) inodeOfHandle(h string) (inode, bool) {
	if len(h) != handleHead+24+handleMac || h[1] != kindInode {
		return inode{}, false
	}
	b := []byte(h[handleHead:])
	return inode{
		binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]),
	}, true
}

// find opens, as a path, the file that is k.
func (t *Tree) find(k inode) (int, error) {
	if fd, err := t.findIndexed(k); err == nil {
		return fd, nil
	}
	t.walkMu.Lock()
	defer t.walkMu.Unlock()
	// Another walk may have passed it.
	if fd, err := t.findIndexed(k); err == nil {
		return fd, nil
	}
	now := time.Now().UnixNano()
	if at, ok := t.missed[k]; ok && now-at < int64(missFor) {
		return -1, unix.ESTALE
	}
	fd, err := t.walk(k)
	if err != nil {
		if len(t.missed) >= maxMissed {
			clear(t.missed)
		}
		t.missed[k] = now
		return -1, unix.ESTALE
	}
	delete(t.missed, k)
	return fd, nil
}

func (t *Tree) findIndexed(k inode) (int, error) {
	path, ok := t.index.path(t.rootID.no(), k.no())
	if !ok {
		return -1, unix.ESTALE
	}
	return t.openBeneath(path, k)
}

// walk goes through the tree, breadth first, until it finds k, and records
// what it sees. t.walkMu is held.
func (t *Tree) walk(k inode) (int, error) {
	type dir struct {
		path string
		no   fileNo
	}
	todo := []dir{{".", t.rootID.no()}}
	buf := make([]byte, streamBuf)
	for seen := 0; len(todo) > 0 && seen < maxWalk; {
		d := todo[0]
		todo = todo[1:]
		fd, err := unix.Openat2(t.root.fd, d.path, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS |
				unix.RESOLVE_NO_XDEV,
		})
		if err != nil {
			continue // gone, or closed to this user
		}
		found := ""
		s := dirStream{fd: fd, buf: buf}
		for s.fill() == nil && s.n > 0 {
			for e, ok := s.next(); ok; e, ok = s.next() {
				seen++
				if e.Name == "." || e.Name == ".." {
					continue
				}
				no := fileNo{d.no.dev, e.Ino}
				name := strings.Clone(e.Name)
				path := name
				if d.path != "." {
					path = d.path + "/" + name
				}
				if e.Ino == k.ino {
					found = path
					no.dev = k.dev
				}
				t.index.note(d.no, no, name)
				if e.kind == unix.DT_DIR || e.kind == unix.DT_UNKNOWN {
					todo = append(todo, dir{path, no})
				}
			}
			if found == "" {
				continue
			}
			// Hard links and files of other mounts may share the number.
			if fd, err := t.openBeneath(found, k); err == nil {
				closeFD(s.fd)
				return fd, nil
			}
			found = ""
		}
		closeFD(s.fd)
	}
	return -1, unix.ESTALE
}
