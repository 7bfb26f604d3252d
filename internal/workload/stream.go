package workload

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

const (
	chunk = 1 << 20
	page  = 4 << 10
)

const large = "large"

// buffer makes memory that direct I/O takes, filled with what does not compress; the
// caller owes an Munmap.
func buffer(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	rand.NewChaCha8([32]byte{}).Read(b)
	return b, nil
}

// withFile opens the large file, runs f with it and a buffer of n bytes, and closes it.
func (r *Run) withFile(flag, n int, f func(file File, b []byte) error) (err error) {
	b, err := buffer(n)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	file, err := r.Place.OpenFile(large, flag, 0o644)
	if err != nil {
		if flag&unix.O_DIRECT != 0 && errors.Is(err, unix.EINVAL) {
			return &SkipError{"the file system takes no O_DIRECT"}
		}
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f(file, b)
}

// haveLarge makes the large file unless there is one that is large enough, or was
// made with as little time, and sets r.mib.
func (r *Run) haveLarge() error {
	info, err := r.Place.Lstat(large)
	if gone(err) != nil {
		return err
	}
	if err == nil {
		r.mib = min(int(info.Size()/chunk), r.Size.FileMiB)
		if r.mib == r.Size.FileMiB || r.mib > 0 && r.Size.Limit > 0 {
			return nil
		}
	}
	return r.withFile(os.O_CREATE|os.O_WRONLY|os.O_TRUNC, chunk, func(file File, b []byte) (err error) {
		r.mib, err = r.fill(file, b)
		return err
	})
}

// fill writes the file from its beginning and waits until it is stable.
func (r *Run) fill(file File, b []byte) (mib int, err error) {
	for mib < r.Size.FileMiB && (mib == 0 || r.more()) {
		if _, err := file.WriteAt(b, int64(mib)*chunk); err != nil {
			return 0, err
		}
		mib++
	}
	return mib, file.Sync()
}

func (r *Run) withoutLarge() error { return gone(r.Place.Remove(large)) }

func streamWrite(flag int) func(r *Run) error {
	return func(r *Run) error {
		return r.withFile(os.O_CREATE|os.O_EXCL|os.O_WRONLY|flag, chunk, func(file File, b []byte) error {
			return r.measure(func() (int, error) { return r.fill(file, b) })
		})
	}
}

func streamRead(flag int) func(r *Run) error {
	return func(r *Run) error {
		return r.withFile(os.O_RDONLY|flag, chunk, func(file File, b []byte) error {
			if f, ok := file.(*osFile); ok {
				// A mount that is not fresh has the kernel's pages of it. That the kernel
				// may keep them is no error.
				_ = unix.Fadvise(f.fd, 0, 0, unix.FADV_DONTNEED)
			}
			return r.measure(func() (int, error) {
				for i := range r.mib {
					if i > 0 && !r.more() {
						return i, nil
					}
					if n, err := file.ReadAt(b, int64(i)*chunk); n < len(b) {
						return 0, fmt.Errorf("%d bytes read at %d MiB: %w", n, i, orShort(err))
					}
				}
				return r.mib, nil
			})
		})
	}
}

// streamReadDeep keeps depth reads in flight by the kernel's asynchronous I/O.
func streamReadDeep(depth int) func(r *Run) error {
	return func(r *Run) error {
		next := 0
		return r.queued(opRead, os.O_RDONLY, depth, chunk, func() (int64, bool) {
			next++
			return int64(next-1) * chunk, next <= r.mib && (next == 1 || r.more())
		})
	}
}

func orShort(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}
