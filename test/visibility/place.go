package visibility

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// place is a directory as one machine sees it. What is not expected to fail ends the test if it does.
type place struct {
	testing.TB
	dir string
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// open opens a file until the test ends.
func (p place) open(name string, flags int) *os.File {
	p.Helper()
	f, err := os.OpenFile(p.path(name), flags, 0o644)
	p.must(err)
	p.Cleanup(func() { f.Close() })
	return f
}

// put writes a file and closes it.
func (p place) put(name, text string) {
	p.Helper()
	p.must(os.WriteFile(p.path(name), []byte(text), 0o644))
}

// append writes to the end of a file that is opened for that, and closes it.
func (p place) append(name, text string) {
	p.Helper()
	f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
	p.must(err)
	_, err = f.WriteString(text)
	p.must(errors.Join(err, f.Close()))
}

// read opens a file and reads it.
func (p place) read(name string) string {
	p.Helper()
	b, err := os.ReadFile(p.path(name))
	p.must(err)
	return string(b)
}

// again reads an open file from its start.
func (p place) again(f *os.File) string {
	p.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	p.must(err)
	return string(b)
}

func (p place) stat(name string) fs.FileInfo {
	p.Helper()
	st, err := os.Stat(p.path(name))
	p.must(err)
	return st
}

// opened is what fstat says of a file that is opened for it.
func (p place) opened(name string) fs.FileInfo {
	p.Helper()
	f, err := os.Open(p.path(name))
	p.must(err)
	defer f.Close()
	st, err := f.Stat()
	p.must(err)
	return st
}

// is reports whether the name is there, by stat.
func (p place) is(name string) bool {
	p.Helper()
	_, err := os.Stat(p.path(name))
	return p.found(err)
}

// opens reports whether the name is there, by open.
func (p place) opens(name string) bool {
	p.Helper()
	f, err := os.Open(p.path(name))
	if err == nil {
		f.Close()
	}
	return p.found(err)
}

func (p place) found(err error) bool {
	p.Helper()
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		p.Fatal(err)
	}
	return err == nil
}

// list is the names of the directory, those of removed files as ".nfs".
func (p place) list() string {
	p.Helper()
	entries, err := os.ReadDir(p.dir)
	p.must(err)
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".nfs") {
			name = ".nfs"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// store writes text to the start of a file through a shared mapping, and calls then before it is unmapped.
func (p place) store(f *os.File, text string, then func(mapped []byte) error) {
	p.Helper()
	m, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	p.must(err)
	copy(m, text)
	p.must(errors.Join(then(m), unix.Munmap(m)))
}

// lock is one kind of lock, asked for without waiting.
type lock func(f *os.File, typ int16) error

// Locks of fcntl that belong to an open file are the same to a server as those of a process.
func byFcntl(f *os.File, typ int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ})
}

func byFlock(f *os.File, typ int16) error {
	how := map[int16]int{unix.F_RDLCK: unix.LOCK_SH, unix.F_WRLCK: unix.LOCK_EX, unix.F_UNLCK: unix.LOCK_UN}[typ]
	return unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
}
