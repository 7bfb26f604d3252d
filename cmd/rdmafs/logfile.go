package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// maxLogBytes bounds each of the two files of a boundedLog.
const maxLogBytes = 512 << 10

// boundedLog is the log of a daemon where there is no syslog: a file in the runtime directory,
// and the one before it. A write that fails is dropped: nobody could be told.
type boundedLog struct {
	name string

	mu   sync.Mutex
	f    *os.File
	size int64
}

// runtimeLog is the file for the log of a mount point.
func runtimeLog(dir string) (string, error) {
	at, err := control.Directory()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(at, fmt.Sprintf("log-%x.log", sum[:8])), nil
}

// olderLog is the file that a log file was before it had become too long.
func olderLog(name string) string { return name + ".1" }

func openBoundedLog(name string) (*boundedLog, error) {
	l := &boundedLog{name: name}
	return l, l.open()
}

// open opens the file, for Write and for a log that nobody has yet.
func (l *boundedLog) open() error {
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, st.Size()
	return nil
}

// Write implements io.Writer.
func (l *boundedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > maxLogBytes {
		l.f.Close()
		_ = os.Rename(l.name, olderLog(l.name))
		if err := l.open(); err != nil {
			l.size = 0
			return 0, err
		}
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

// remove removes the log of a mount that has ended in order.
func (l *boundedLog) remove() {
	_ = os.Remove(l.name)
	_ = os.Remove(olderLog(l.name))
}

// lastLines are the last lines of a log file that a user has written, and of the one before
// it. A daemon says where its log is, and may be another user's: what is not a file of
// that user is not read, and no more of it than fits maxShown.
func lastLines(name string, uid uint32, lines int) ([]string, error) {
	const maxShown = 4 * maxLogBytes
	newer, err := tail(name, uid, maxShown)
	if err != nil {
		return nil, err
	}
	older, err := tail(olderLog(name), uid, maxShown)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	all := strings.Split(strings.TrimSuffix(older+newer, "\n"), "\n")
	return all[max(0, len(all)-lines):], nil
}

// tail is the end of a file of a user, from the beginning of a line on.
func tail(name string, uid uint32, most int64) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", &os.PathError{Op: "fstat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uid {
		return "", fmt.Errorf("%s is no file of user %d", name, uid)
	}
	from := max(0, st.Size-most)
	b, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return "", err
	}
	if from > 0 {
		_, after, _ := strings.Cut(string(b), "\n")
		return after, nil
	}
	return string(b), nil
}

// ownerOf is who has mounted at dir; this user if nobody has.
func ownerOf(dir string) uint32 {
	if m, ok, err := mounttable.Find(dir); ok && err == nil && m.Type == "fuse.rdmafs" {
		return m.UID
	}
	return uint32(os.Geteuid())
}
