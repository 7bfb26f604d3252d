package mount

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// directMapMost is the largest size of the file.
const directMapMost = 200_000

// TestDirectAndMapped: reads, writes, loads and stores of one file, by
// descriptors with and without O_DIRECT and by mappings of both, and changes of
// its size: each sees what the ones before it did, and so does the server in the
// end.
func TestDirectAndMapped(t *testing.T) {
	args := childArgs(t)
	if args == nil {
		s := startServer(t, serverOptions{})
		for _, words := range []string{"", "wsize=4096,rsize=8192", "noac"} {
			m := s.mount(t, "rdma", words)
			seed := rand.Uint64()
			t.Logf("%q: seed %d", words, seed)
			runChild(t, filepath.Join(m.Dir, "f"), filepath.Join(s.export, "f"), strconv.FormatUint(seed, 10))
			m.Umount(t)
		}
		return
	}
	if err := os.Remove(args[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	u := &directMap{name: args[0], r: rand.New(rand.NewPCG(seed, 1))}
	defer u.close()
	for step := range 400 {
		if err := u.step(); err != nil {
			t.Fatalf("seed %d, step %d: %v; before that: %q", seed, step, err, u.log[max(0, len(u.log)-20):])
		}
	}
	if err := u.close(); err != nil {
		t.Fatal(err)
	}
	if disk, err := os.ReadFile(args[1]); err != nil || !bytes.Equal(disk, u.want) {
		t.Errorf("seed %d: the server has %s; %v", seed, firstDifference(disk, u.want), err)
	}
}

// directMap is the user of the file.
type directMap struct {
	name string
	r    *rand.Rand
	want []byte
	// fds are descriptors with O_DIRECT and without, maps a mapping of each.
	fds  []*os.File
	maps [][]byte
	log  []string // of what was done
}

func (u *directMap) open() error {
	for _, flags := range []int{unix.O_DIRECT, 0} {
		f, err := os.OpenFile(u.name, os.O_RDWR|os.O_CREATE|flags, 0o644)
		if err != nil {
			return err
		}
		u.fds = append(u.fds, f)
		m, err := unix.Mmap(int(f.Fd()), 0, directMapMost, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("mmap, open flags %#o: %w", flags, err)
		}
		u.maps = append(u.maps, m)
	}
	return nil
}

func (u *directMap) close() (err error) {
	for _, m := range u.maps {
		err = errors.Join(err, unix.Munmap(m))
	}
	for _, f := range u.fds {
		err = errors.Join(err, f.Close())
	}
	u.fds, u.maps = nil, nil
	return err
}

func (u *directMap) say(format string, args ...any) {
	u.log = append(u.log, fmt.Sprintf(format, args...))
}

// stretch is a part of the file of at most size bytes, in a third of all cases
// one of whole pages.
func (u *directMap) stretch(size int) (off, end int) {
	if size == 0 {
		return 0, 0
	}
	off = u.r.IntN(size)
	end = min(size, off+1+u.r.IntN(30_000))
	if page := os.Getpagesize(); u.r.IntN(3) == 0 {
		off -= off % page
		end = min(size, off+page*(1+u.r.IntN(6)))
	}
	return off, end
}

// random fills a stretch of want, which grows if need be.
func (u *directMap) random(off, end int) []byte {
	if end > len(u.want) {
		u.want = append(u.want, make([]byte, end-len(u.want))...)
	}
	b := u.want[off:end]
	for k := range b {
		b[k] = byte(u.r.Uint32())
	}
	return b
}

func (u *directMap) step() error {
	if u.fds == nil {
		if err := u.open(); err != nil {
			return err
		}
	}
	which := u.r.IntN(2)
	f, m := u.fds[which], u.maps[which]
	how := []string{"direct", "buffered"}[which]
	switch op := u.r.IntN(100); {
	case op < 25:
		off, end := u.stretch(directMapMost)
		got := make([]byte, end-off)
		u.say("%s read of %d to %d", how, off, end)
		n, err := readAt(f, got, off)
		if err != nil {
			return err
		}
		return u.compare(got[:n], off, min(end, max(off, len(u.want))))
	case op < 50:
		off, end := u.stretch(directMapMost)
		u.say("%s write of %d to %d", how, off, end)
		b := u.random(off, end)
		if n, err := f.WriteAt(b, int64(off)); err != nil || n != len(b) {
			return fmt.Errorf("write: %d of %d, %v", n, len(b), err)
		}
	case op < 67:
		off, end := u.stretch(len(u.want))
		u.say("load of %d to %d, mapping of the %s descriptor", off, end, how)
		return touching(func() error { return u.compare(m[off:end], off, end) })
	case op < 84:
		off, end := u.stretch(len(u.want))
		u.say("store to %d to %d, mapping of the %s descriptor", off, end, how)
		return touching(func() error { copy(m[off:end], u.random(off, end)); return nil })
	case op < 88:
		size := u.r.IntN(directMapMost)
		u.say("ftruncate to %d", size)
		if err := f.Truncate(int64(size)); err != nil {
			return err
		}
		u.want = append(u.want, make([]byte, max(0, size-len(u.want)))...)[:size:size]
	case op < 92:
		u.say("msync")
		return unix.Msync(m, unix.MS_SYNC)
	case op < 96:
		u.say("fsync")
		return f.Sync()
	case op < 98:
		u.say("fstat")
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if st.Size() != int64(len(u.want)) {
			return fmt.Errorf("size %d, want %d", st.Size(), len(u.want))
		}
	default:
		u.say("close and open")
		return u.close()
	}
	return nil
}

func (u *directMap) compare(got []byte, off, end int) error {
	if want := u.want[min(off, len(u.want)):min(end, len(u.want))]; !bytes.Equal(got, want) {
		return fmt.Errorf("from byte %d: %s, want %d bytes", off, firstDifference(got, want), len(want))
	}
	return nil
}
