package compare

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	chunk = 1 << 20
	page  = 4 << 10
)

// buffer makes memory that direct I/O takes; the caller owes an Munmap.
func buffer(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return b, os.NewSyscallError("mmap", err)
}

// withFile opens the file, runs f with it and a buffer of n bytes, and closes it.
func withFile(name string, flags, n int, f func(file *os.File, b []byte) error) (err error) {
	b, err := buffer(n)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	file, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f(file, b)
}

// writeFile writes a new file of that size and waits until it is stable.
func writeFile(name string, mib, flags int) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return withFile(name, os.O_CREATE|os.O_WRONLY|flags, chunk, func(file *os.File, b []byte) error {
		rand.NewChaCha8([32]byte{}).Read(b)
		for range mib {
			if _, err := file.Write(b); err != nil {
				return err
			}
		}
		return file.Sync()
	})
}

func readFile(name string, mib, flags int) error {
	return withFile(name, os.O_RDONLY|flags, chunk, func(file *os.File, b []byte) error {
		for range mib {
			if _, err := io.ReadFull(file, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// randomReads keeps depth direct reads of a page in flight for the time, and
// returns how many were done in a second.
func randomReads(name string, mib, depth int, d time.Duration) (rate float64, err error) {
	err = withFile(name, os.O_RDONLY|unix.O_DIRECT, depth*page, func(file *os.File, b []byte) (err error) {
		q, err := newQueue(depth)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.close()) }()
		// The same places for every system.
		r := rand.New(rand.NewPCG(1, 2))
		submit := func(slot int) error {
			return q.read(file, b[slot*page:][:page], int64(r.IntN(mib*chunk/page))*page, slot)
		}
		start := time.Now()
		for slot := range depth {
			if err := submit(slot); err != nil {
				return err
			}
		}
		done := 0
		for time.Since(start) < d {
			finished, err := q.wait()
			if err != nil {
				return err
			}
			for _, f := range finished {
				if f.Res != page {
					return fmt.Errorf("read of a page returned %d", f.Res)
				}
				done++
				if err := submit(int(f.Data)); err != nil {
					return err
				}
			}
		}
		rate = float64(done) / time.Since(start).Seconds()
		return nil
	})
	return rate, err
}
