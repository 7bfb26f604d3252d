package vfs

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrBadCookie: the directory has no such position.
const ErrBadCookie = unix.ESPIPE

const (
	streamBuf = 32 << 10
	// maxStreams bounds the idle streams of a directory.
	maxStreams = 4
)

var streamBufs = sync.Pool{New: func() any { return new([streamBuf]byte) }}

// dirStream reads a directory. Entries that were read and not handed out wait
// in it for who goes on at their cookie.
type dirStream struct {
	fd     int
	cookie uint64 // of the last entry handed out
	buf    []byte
	lease  *[streamBuf]byte
	pos, n int
}

// Dirent is an entry of a directory. Name is borrowed until the next one.
type Dirent struct {
	Ino    uint64
	Cookie uint64
	Name   string
	cname  *byte // Name with the NUL that ends it
	kind   byte
}

func (s *dirStream) close() {
	closeFD(s.fd)
	if s.lease != nil {
		streamBufs.Put(s.lease)
		s.lease, s.buf = nil, nil
	}
}

// fill reads more entries; s.n is 0 at the end.
func (s *dirStream) fill() error {
	s.pos, s.n = 0, 0
	for {
		n, err := unix.Getdents(s.fd, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOENT { // the directory was removed
			return nil
		}
		if err == nil {
			s.n = n
		}
		return err
	}
}

// The form of struct linux_dirent64.
const (
	direntOff  = 8
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// next yields the next entry read, and moves on.
func (s *dirStream) next() (Dirent, bool) {
	for s.pos+direntName <= s.n {
		b := s.buf[s.pos:s.n]
		size := int(binary.NativeEndian.Uint16(b[direntLen:]))
		if size < direntName || size > len(b) {
			s.pos = s.n
			break
		}
		s.pos += size
		name := b[direntName:size]
		end := bytes.IndexByte(name, 0)
		e := Dirent{
			Ino:    binary.NativeEndian.Uint64(b),
			Cookie: binary.NativeEndian.Uint64(b[direntOff:]),
			kind:   b[direntType],
		}
		if e.Ino == 0 || end <= 0 {
			continue
		}
		e.Name, e.cname = unsafe.String(&name[0], end), &name[0]
		return e, true
	}
	return Dirent{}, false
}

// stream is one that goes on behind cookie: an idle one that stands there, or
// one that is put there.
func (t *Tree) stream(dir *Node, cookie uint64) (*dirStream, error) {
	dir.touch(t)
	var s *dirStream
	dir.ioMu.Lock()
	for i, idle := range dir.streams {
		if cookie != 0 && idle.cookie == cookie || i == len(dir.streams)-1 && len(dir.streams) == maxStreams {
			s = idle
			last := len(dir.streams) - 1
			dir.streams[i] = dir.streams[last]
			dir.streams[last] = nil
			dir.streams = dir.streams[:last]
			break
		}
	}
	dir.ioMu.Unlock()
	if s != nil && cookie != 0 && s.cookie == cookie {
		return s, nil
	}
	if s == nil {
		fd, err := t.openDir(dir)
		if err != nil {
			return nil, err
		}
		lease := streamBufs.Get().(*[streamBuf]byte)
		s = &dirStream{fd: fd, lease: lease, buf: lease[:]}
	}
	s.pos, s.n, s.cookie = 0, 0, cookie
	if _, err := unix.Seek(s.fd, int64(cookie), unix.SEEK_SET); err != nil {
		s.close()
		return nil, ErrBadCookie
	}
	return s, nil
}

func (t *Tree) openDir(dir *Node) (int, error) {
	dir.ioMu.Lock()
	defer dir.ioMu.Unlock()
	return t.reopenAsOwner(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0o400)
}

// keepStream makes s idle.
func (n *Node) keepStream(s *dirStream) {
	n.ioMu.Lock()
	if len(n.streams) < maxStreams {
		n.streams = append(n.streams, s)
		s = nil
	}
	n.ioMu.Unlock()
	if s != nil {
		s.close()
	}
}

// ReadDir hands out dir's entries behind cookie (0: from the start) until emit
// refuses one, which is handed out again when asked for by the cookie before.
// eof: there are no more. With plus, emit runs as c and may call
// Child. st is dir's attributes just now.
func (t *Tree) ReadDir(c *Cred, dir *Node, st *Stat, cookie uint64, plus bool, emit func(*Dirent) bool) (eof bool, err error) {
	if !dir.IsDir() {
		return false, unix.ENOTDIR
	}
	has, err := t.Allowed(c, dir, st, MayRead)
	if err != nil {
		return false, err
	}
	if has == 0 && (!t.priv || c.UID != st.Uid) {
		return false, unix.EACCES
	}
	s, err := t.stream(dir, cookie)
	if err != nil {
		return false, err
	}
	if plus {
		id, err := t.as(c)
		if err != nil {
			s.close()
			return false, err
		}
		defer id.drop()
	}
	var e Dirent // one for all, as it escapes
	for {
		at := s.pos
		var ok bool
		if e, ok = s.next(); !ok {
			if err := s.fill(); err != nil {
				s.close()
				if err == unix.EINVAL {
					err = ErrBadCookie
				}
				return false, err
			}
			if s.n == 0 {
				s.close()
				return true, nil
			}
			continue
		}
		if e.Name == ".." && dir == t.root {
			e.Ino = t.rootID.ino
		}
		if !emit(&e) {
			s.pos = at
			dir.keepStream(s)
			return false, nil
		}
		s.cookie = e.Cookie
	}
}

// Child is the handle and attributes of an entry, for ReadDir's emit. It is an
// error when the name means another file by now. The way up has none: it may
// lead out of the tree.
func (t *Tree) Child(dir *Node, e *Dirent, st *Stat) (string, error) {
	switch {
	case e.Name == "." || e.Name == ".." && dir == t.root:
		return dir.handle, t.Stat(dir, st)
	case e.Name == "..":
		return "", unix.ESTALE
	}
	h, err := t.handleOfNameC(dir.fd, e.cname, st)
	if err == nil && t.kernel {
		err = statAtC(dir.fd, e.cname, st)
	}
	if err != nil {
		return "", err
	}
	// The handle was taken between the two looks at the number, so it is of
	// the same file.
	if st.Ino != e.Ino || !t.sameMount(st) {
		return "", unix.ESTALE
	}
	if !t.kernel {
		t.noteChild(dir, strings.Clone(e.Name), st)
	}
	if t.cfg.Lossy && isRegular(st) {
		if n := t.nodes.get(h); n != nil {
			err = t.Stat(n, st)
			t.Put(n)
		}
	}
	return h, err
}
