package mem

import (
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// hugePage is the size from which transparent huge pages are asked for.
const hugePage = 2 << 20

var arenaID atomic.Uint64

// Arena is one anonymous mapping outside the Go heap, of fixed size.
type Arena struct {
	id uint64
	b  []byte
}

// NewArena maps size bytes, rounded up to whole pages and zeroed. The caller
// owns the arena and must Close it once nothing refers to its bytes.
func NewArena(size int) (*Arena, error) {
	page := os.Getpagesize()
	if size <= 0 || size > 1<<40 {
		return nil, fmt.Errorf("mem: arena of %d bytes: size out of range", size)
	}
	size = (size + page - 1) &^ (page - 1)
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mem: map %d bytes: %w", size, err)
	}
	if size >= hugePage {
		// An optimization that kernels without THP refuse.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return &Arena{id: arenaID.Add(1), b: b}, nil
}

// ID is unique among the arenas of this process, never zero and never reused.
func (a *Arena) ID() uint64 { return a.id }

// Len is the arena's size in bytes.
func (a *Arena) Len() int { return len(a.b) }

// Bytes is the whole arena; it is valid until Close.
func (a *Arena) Bytes() []byte { return a.b }

// Seg names n bytes from off. It panics when they are not all inside.
func (a *Arena) Seg(off, n int) Seg {
	if off < 0 || n < 0 || off > len(a.b) || n > len(a.b)-off {
		panic(fmt.Sprintf("mem: segment [%d,+%d) outside arena of %d bytes", off, n, len(a.b)))
	}
	return Seg{Arena: a, Off: off, Len: n}
}

// Discard gives the pages of n bytes from off back to the system, both multiples of its page
// size: they read as zeros from then on. No device may have them pinned, and nobody may
// use them meanwhile.
func (a *Arena) Discard(off, n int) error {
	return os.NewSyscallError("madvise", unix.Madvise(a.Seg(off, n).Bytes(), unix.MADV_DONTNEED))
}

// Close unmaps the arena. Touching its bytes afterwards is a fault, so every
// registration and lease must be gone. Closing twice is an error.
func (a *Arena) Close() error {
	if a.b == nil {
		return fmt.Errorf("mem: arena %d closed twice", a.id)
	}
	b := a.b
	a.b = nil
	return unix.Munmap(b)
}
