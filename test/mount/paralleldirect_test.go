package mount

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	sectorSize  = 512
	fileSectors = 512
	// ownSectors of the file are each thread's own, in front of those that all write to.
	ownSectors = 12
)

// TestParallelDirectWrites: 16 threads write one file with O_DIRECT at the same time, ranges of
// their own and ranges that overlap others', also behind its end. Every read that began when
// a write had been acknowledged sees it or a later one, with O_DIRECT and through
// the page cache; and of two writes that overlap, one comes as a whole after the other.
func TestParallelDirectWrites(t *testing.T) {
	for _, c := range []struct{ proto, words string }{{"rdma", ""}, {"tcp", "nconnect=2"}, {"rdma", "fuse=ring"}} {
		t.Run(c.proto+","+c.words, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, c.proto, c.words)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			w := &sectors{name: filepath.Join(m.Dir, "f")}
			var threads sync.WaitGroup
			for n := range 16 {
				threads.Go(func() {
					if err := w.thread(n, rand.New(rand.NewPCG(seed, uint64(n)))); err != nil {
						t.Errorf("thread %d: %v", n, err)
					}
				})
			}
			threads.Wait()
			var last []byte
			for _, flags := range []int{unix.O_DIRECT, 0} {
				b, err := w.readAll(flags)
				if err != nil {
					t.Errorf("in the end, open flags %#o: %v", flags, err)
				}
				last = b
			}
			disk, err := os.ReadFile(filepath.Join(s.export, "f"))
			if err != nil || !bytes.Equal(disk, last) {
				t.Errorf("the server has %s; %v", firstDifference(disk, last), err)
			}
			if err := w.torn(last); err != nil {
				t.Error(err)
			}
		})
	}
}

// sectors is the model of a file: all writes to each of its sectors.
type sectors struct {
	name string

	mu     sync.Mutex
	clock  uint64 // counts beginnings and ends of calls
	writes []*directWrite
	of     [fileSectors][]*directWrite
}

// directWrite is one write(2), known in the file by its id; end is 0 until it has returned.
type directWrite struct {
	id         uint64
	begin, end uint64
}

// thread writes and reads as one of 16.
func (w *sectors) thread(n int, r *rand.Rand) error {
	direct, err := os.OpenFile(w.name, os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o644)
	if err != nil {
		return err
	}
	defer direct.Close()
	cached, err := os.Open(w.name)
	if err != nil {
		return err
	}
	defer cached.Close()
	const shared = 16 * ownSectors
	for range 40 {
		from, count := shared+r.IntN(fileSectors-shared), 1+r.IntN(64)
		if r.IntN(3) == 0 {
			from = n*ownSectors + r.IntN(ownSectors)
			count = min(count, (n+1)*ownSectors-from)
		}
		count = min(count, fileSectors-from)
		if err := w.write(direct, from, count); err != nil {
			return err
		}
		f := direct
		if r.IntN(3) == 0 {
			f = cached
		}
		if r.IntN(2) == 0 { // else what was just written
			from = r.IntN(fileSectors)
			count = 1 + r.IntN(fileSectors-from)
		}
		if _, err := w.read(f, from, count); err != nil {
			return err
		}
	}
	return errors.Join(direct.Close(), cached.Close())
}

// write fills sectors with the number of the write and of the sector.
func (w *sectors) write(f *os.File, from, count int) error {
	w.mu.Lock()
	w.clock++
	d := &directWrite{id: uint64(len(w.writes) + 1), begin: w.clock}
	w.writes = append(w.writes, d)
	for s := from; s < from+count; s++ {
		w.of[s] = append(w.of[s], d)
	}
	w.mu.Unlock()
	b := make([]byte, 0, count*sectorSize)
	for k := range count * sectorSize / 8 {
		b = binary.LittleEndian.AppendUint64(b, d.id<<32|uint64(from+k*8/sectorSize))
	}
	if _, err := f.WriteAt(b, int64(from)*sectorSize); err != nil {
		return fmt.Errorf("write %d of sectors %d+%d: %w", d.id, from, count, err)
	}
	w.mu.Lock()
	w.clock++
	d.end = w.clock
	w.mu.Unlock()
	return nil
}

// read reads sectors and checks those that nobody was writing to meanwhile.
func (w *sectors) read(f *os.File, from, count int) ([]byte, error) {
	w.mu.Lock()
	w.clock++
	begin := w.clock
	w.mu.Unlock()
	b := make([]byte, count*sectorSize)
	n, err := f.ReadAt(b, int64(from)*sectorSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := from; s < from+count; s++ {
		if err := w.check(s, b[(s-from)*sectorSize:][:sectorSize], begin); err != nil {
			return nil, fmt.Errorf("read of sectors %d+%d, which gave %d bytes: %w", from, count, n, err)
		}
	}
	return b[:n], nil
}

// check checks a sector as a call has read it that began at some time and ends now.
func (w *sectors) check(sector int, b []byte, begin uint64) error {
	all := w.of[sector]
	for _, d := range all {
		if d.end == 0 || d.end > begin {
			return nil // being written to, or was meanwhile
		}
	}
	word := binary.LittleEndian.Uint64(b)
	for k := 8; k < sectorSize; k += 8 {
		if other := binary.LittleEndian.Uint64(b[k:]); other != word {
			return fmt.Errorf("sector %d begins with %#x, and has %#x at %d", sector, word, other, k)
		}
	}
	seen := new(directWrite) // none
	if word != 0 {
		id := word >> 32
		if id == 0 || id > uint64(len(w.writes)) || word&(1<<32-1) != uint64(sector) {
			return fmt.Errorf("sector %d is %#x", sector, word)
		}
		seen = w.writes[id-1]
	}
	for _, d := range all {
		if d.begin > seen.end {
			return fmt.Errorf("sector %d is of write %d, which had returned before write %d began", sector, seen.id, d.id)
		}
	}
	return nil
}

// readAll reads the file when all writes have returned.
func (w *sectors) readAll(flags int) ([]byte, error) {
	f, err := os.OpenFile(w.name, os.O_RDONLY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return w.read(f, 0, fileSectors)
}

// torn looks for two writes of which each has replaced a part of the other.
func (w *sectors) torn(file []byte) error {
	type pair struct{ later, earlier uint64 }
	seen := map[pair]int{}
	for s := range len(file) / sectorSize {
		last := binary.LittleEndian.Uint64(file[s*sectorSize:]) >> 32
		for _, d := range w.of[s] {
			if d.id == last {
				continue
			}
			seen[pair{last, d.id}] = s
			if other, ok := seen[pair{d.id, last}]; ok {
				return fmt.Errorf("write %d came after write %d in sector %d, and before it in sector %d", last, d.id, s, other)
			}
		}
	}
	return nil
}
