package mount

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	mappers = 5
	// stripe is how many bytes in a row belong to one thread: pages belong to
	// several.
	stripe = 1000
	// mappedMost is the largest size of the file.
	mappedMost = 200_000
)

// mappedFile is a file that mappers use, each the bytes that are its own.
type mappedFile struct {
	name string
	disk string // where it is on the server
	dirs []string

	// size is held shared to use the file, and alone to change its size.
	size sync.RWMutex
	want []byte // what it holds
}

// use has threads use one file: session by session on one of the mounts, after
// which the other one must see everything.
func (role mmapRole) use(t *testing.T) {
	f := &mappedFile{name: "f", disk: filepath.Join(role.Export, "f"), dirs: role.Mounts}
	r := rand.New(rand.NewPCG(role.Seed, 1))
	for range *mmapSessions {
		k := r.IntN(2)
		here, there := filepath.Join(f.dirs[k], f.name), filepath.Join(f.dirs[1-k], f.name)
		var all sync.WaitGroup
		for n := range mappers {
			m := &mapper{mappedFile: f, n: n, here: here, there: there, r: rand.New(rand.NewPCG(role.Seed, r.Uint64()))}
			all.Go(func() {
				if err := m.session(); err != nil {
					t.Errorf("thread %d on %s: %v; %q", n, here, err, m.log)
				}
			})
		}
		all.Wait()
		if err := f.compare(there); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
		fmt.Println("session")
	}
}

// compare checks the whole file while no session uses it.
func (f *mappedFile) compare(name string) error {
	disk, err := os.ReadFile(f.disk)
	if err != nil || !bytes.Equal(disk, f.want) {
		return fmt.Errorf("when all had closed it, the disk had %s; %v", firstDifference(disk, f.want), err)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.whole(file, nil)
}

// whole compares all of the file, as file reads it and as a mapping shows it;
// no session changes it meanwhile.
func (f *mappedFile) whole(file *os.File, m []byte) error {
	got := make([]byte, mappedMost+1)
	n, err := readAt(file, got, 0)
	if err != nil || !bytes.Equal(got[:n], f.want) {
		return fmt.Errorf("a read of %s gave %s; %v", file.Name(), firstDifference(got[:n], f.want), err)
	}
	if m == nil {
		if m, err = unix.Mmap(int(file.Fd()), 0, mappedMost, unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return err
		}
		defer unix.Munmap(m)
	}
	return touching(func() error {
		if m := m[:len(f.want)]; !bytes.Equal(m, f.want) {
			return fmt.Errorf("a mapping of %s shows %s", file.Name(), firstDifference(m, f.want))
		}
		return nil
	})
}

// touching runs f, in which a fault of a mapping (SIGBUS) is an error.
func touching(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	return f()
}

// readAt is ReadAt, to which the end of the file is no error.
func readAt(f *os.File, b []byte, off int) (n int, err error) {
	for n < len(b) {
		k, err := unix.Pread(int(f.Fd()), b[n:], int64(off+n))
		if err == unix.EINTR {
			continue
		}
		if err != nil || k == 0 {
			return n, err
		}
		n += k
	}
	return n, nil
}

// mapper is one thread.
type mapper struct {
	*mappedFile
	n           int
	here, there string // the file's name on this mount and on the other
	r           *rand.Rand
	f           *os.File
	m           []byte
	log         []string
}

func (a *mapper) say(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// own are the stretches of [off, end) that only this thread changes, as far as
// the file goes.
func (a *mapper) own(off, end int) iter.Seq2[int, int] {
	end = min(end, len(a.want))
	return func(yield func(int, int) bool) {
		for k := off / stripe; k*stripe < end; k++ {
			if k%mappers == a.n && !yield(max(off, k*stripe), min(end, (k+1)*stripe)) {
				return
			}
		}
	}
}

// check compares this thread's bytes of [off, end) with what was read from off.
func (a *mapper) check(what string, got []byte, off, end int) error {
	for from, to := range a.own(off, end) {
		part := got[min(from-off, len(got)):min(to-off, len(got))]
		if !bytes.Equal(part, a.want[from:to]) {
			return fmt.Errorf("%s at %d: %s", what, from, firstDifference(part, a.want[from:to]))
		}
	}
	return nil
}

// acknowledged compares this thread's bytes of [off, end) with the disk's.
func (a *mapper) acknowledged(by string, off, end int) error {
	disk, err := os.ReadFile(a.disk)
	if err != nil {
		return err
	}
	return a.check("on disk after "+by, disk[min(off, len(disk)):], off, end)
}

// session opens and maps the file, uses it, and closes it.
func (a *mapper) session() (err error) {
	a.say("open")
	if a.f, err = os.OpenFile(a.here, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return err
	}
	if err := a.remap(); err != nil {
		return errors.Join(err, a.f.Close())
	}
	for range 2 + a.r.IntN(10) {
		if err := a.step(); err != nil {
			return errors.Join(err, a.f.Close(), unix.Munmap(a.m))
		}
	}
	if a.r.IntN(2) == 0 {
		a.say("unmap, close")
		return errors.Join(unix.Munmap(a.m), a.close())
	}
	a.say("close, store, unmap")
	return errors.Join(a.close(), a.storeAndSync(), unix.Munmap(a.m))
}

func (a *mapper) close() error {
	a.size.RLock()
	defer a.size.RUnlock()
	if err := a.f.Close(); err != nil {
		return err
	}
	return a.acknowledged("close", 0, mappedMost)
}

// remap makes the mapping anew. It reaches behind the end of the file, so that
// it need not follow the size.
func (a *mapper) remap() (err error) {
	if a.m != nil {
		if err := unix.Munmap(a.m); err != nil {
			return err
		}
	}
	a.m, err = unix.Mmap(int(a.f.Fd()), 0, mappedMost, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (a *mapper) storeAndSync() error {
	a.size.RLock()
	defer a.size.RUnlock()
	if err := a.store(0, mappedMost); err != nil {
		return err
	}
	return a.msync(0, mappedMost)
}

func (a *mapper) step() error {
	if a.r.IntN(8) == 0 {
		return a.resize()
	}
	a.size.RLock()
	defer a.size.RUnlock()
	if len(a.want) == 0 {
		return nil
	}
	off := a.r.IntN(len(a.want))
	end := min(len(a.want), off+1+a.r.IntN(30_000))
	switch a.r.IntN(12) {
	case 0, 1, 2:
		return a.store(off, end)
	case 3:
		a.say("load %d to %d", off, end)
		return touching(func() error { return a.check("load", a.m[off:end], off, end) })
	case 4:
		a.say("read %d to %d", off, end)
		return a.read(a.f, off, end)
	case 5:
		a.say("read %d to %d by another opening", off, end)
		f, err := os.Open(a.here)
		if err != nil {
			return err
		}
		return errors.Join(a.read(f, off, end), f.Close())
	case 6:
		return a.write(off, end)
	case 7:
		return a.msync(off, end)
	case 8:
		a.say("fsync")
		if err := a.f.Sync(); err != nil {
			return err
		}
		return a.acknowledged("fsync", 0, mappedMost)
	case 9:
		a.say("unmap and map")
		return a.remap()
	case 10:
		// What the other mount changes has this one drop its pages.
		a.say("chmod on the other mount")
		return os.Chmod(a.there, 0o600+os.FileMode(a.r.IntN(0o100)))
	}
	a.say("read on the other mount")
	_, err := os.ReadFile(a.there)
	return err
}

// random fills a stretch of want.
func (a *mapper) random(off, end int) []byte {
	b := a.want[off:end]
	for k := range b {
		b[k] = byte(a.r.Uint32())
	}
	return b
}

func (a *mapper) store(off, end int) error {
	a.say("store %d to %d", off, end)
	return touching(func() error {
		for from, to := range a.own(off, end) {
			copy(a.m[from:to], a.random(from, to))
		}
		return nil
	})
}

func (a *mapper) write(off, end int) error {
	a.say("write %d to %d", off, end)
	for from, to := range a.own(off, end) {
		if _, err := a.f.WriteAt(a.random(from, to), int64(from)); err != nil {
			return err
		}
	}
	return nil
}

func (a *mapper) read(f *os.File, off, end int) error {
	got := make([]byte, end-off)
	n, err := readAt(f, got, off)
	if err != nil {
		return err
	}
	return a.check("read", got[:n], off, end)
}

func (a *mapper) msync(off, end int) error {
	a.say("msync %d to %d", off, end)
	if err := unix.Msync(a.m[off-off%os.Getpagesize():end], unix.MS_SYNC); err != nil {
		return err
	}
	return a.acknowledged("msync", off, end)
}

// resize changes the file's size, all its users but this one waiting, while
// what they have stored may be on its way.
func (a *mapper) resize() error {
	a.size.Lock()
	defer a.size.Unlock()
	if a.r.IntN(2) == 0 {
		a.say("begin to write all")
		if err := unix.SyncFileRange(int(a.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE); err != nil {
			return err
		}
	}
	n := a.r.IntN(mappedMost)
	switch a.r.IntN(4) {
	case 0:
		a.say("ftruncate to %d", n)
		if err := a.f.Truncate(int64(n)); err != nil {
			return err
		}
	case 1:
		a.say("truncate to %d", n)
		if err := os.Truncate(a.here, int64(n)); err != nil {
			return err
		}
	case 2:
		a.say("open with O_TRUNC")
		f, err := os.OpenFile(a.here, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		n = 0
	default:
		end := min(mappedMost, n+1+a.r.IntN(50_000))
		a.say("write %d to %d for all", n, end)
		a.want = append(a.want, make([]byte, max(0, end-len(a.want)))...)
		if _, err := a.f.WriteAt(a.random(n, end), int64(n)); err != nil {
			return err
		}
		n = len(a.want)
	}
	a.want = append(a.want, make([]byte, max(0, n-len(a.want)))...)[:n:n]
	return a.whole(a.f, a.m)
}
