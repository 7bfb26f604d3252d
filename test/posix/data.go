package posix

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, f *os.File, off int64, s string) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); err != nil || n != len(s) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(s), err)
	}
}

// check reads the whole of f.
func check(t *testing.T, f *os.File, want string) {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || string(got) != want {
		t.Fatalf("read %q, want %q, %v", clip(got), clip([]byte(want)), err)
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 60)] }

func sparseFile(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const far = 5<<20 + 123
	write(t, f, far, "end")
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	want := append(make([]byte, far), "end"...)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes read, %d expected, %v", len(got), len(want), err)
	}
}

// randomWrites writes, truncates, syncs and reads at random, beside a model of
// what the file must hold, then reads it through a fresh open.
func randomWrites(t *testing.T, dir string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	name := filepath.Join(dir, "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	const span = 3 << 20
	var model []byte
	grow := func(n int) {
		if n > len(model) {
			model = append(model, make([]byte, n-len(model))...)
		}
	}
	for range 300 {
		off, n := r.IntN(span), 1+r.IntN(1<<(1+r.IntN(18)))
		switch k := r.IntN(10); {
		case k < 6:
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if _, err := f.WriteAt(b, int64(off)); err != nil {
				t.Fatal(err)
			}
			grow(off + n)
			copy(model[off:], b)
		case k < 8:
			b := make([]byte, n)
			got, err := f.ReadAt(b, int64(off))
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			want := model[min(off, len(model)):min(off+n, len(model))]
			if !bytes.Equal(b[:got], want) {
				t.Fatalf("read at %d: %d bytes, %d expected, or other content", off, got, len(want))
			}
		case k < 9:
			if err := f.Truncate(int64(off)); err != nil {
				t.Fatal(err)
			}
			grow(off)
			model = model[:off:off]
		default:
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, model) {
		t.Fatalf("after close: %d bytes, %d expected, or other content; %v", len(got), len(model), err)
	}
}

func truncateDirty(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, f, 0, "0123456789")
	if err := f.Truncate(4); err != nil {
		t.Fatal(err)
	}
	check(t, f, "0123")
	if err := f.Truncate(8); err != nil {
		t.Fatal(err)
	}
	check(t, f, "0123\x00\x00\x00\x00")
	write(t, f, 6, "x")
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	check(t, f, "0123\x00\x00x\x00")
}

func sharedMapping(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	const n = 3*4096 + 100
	if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := Store(m[4090:], []byte("across two pages")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		t.Error(err)
	}
	if err := Store(m[n-4:], []byte("tail")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Munmap(m); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	want := make([]byte, n)
	copy(want[4090:], "across two pages")
	copy(want[n-4:], "tail")
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what was stored through the mapping is not in the file (%v)", err)
	}
}

func syncedWrites(t *testing.T, dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_CREATE|os.O_RDWR|os.O_SYNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 20 {
		write(t, f, int64(i*10), fmt.Sprintf("line %04d\n", i))
	}
	st, err := f.Stat()
	if err != nil || st.Size() != 200 {
		t.Errorf("size %d, %v", st.Size(), err)
	}
}

func directUnaligned(t *testing.T, dir string) {
	name := filepath.Join(dir, "f")
	content := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, c := range []struct{ off, n int }{
		{0, 4096}, {512, 100_000}, {1, 7}, {len(content) - 5, 100}, {len(content), 10}, {300_001, 1_200_000},
	} {
		b := make([]byte, c.n)
		n, err := unix.Pread(fd, b, int64(c.off))
		want := content[c.off:min(c.off+c.n, len(content))]
		if err != nil || !bytes.Equal(b[:max(n, 0)], want) {
			t.Errorf("at %d: %d bytes, want %d; %v", c.off, n, len(want), err)
		}
	}
}

func appendTwoOpens(t *testing.T, dir string) {
	name := filepath.Join(dir, "log")
	var want string
	for i := range 10 {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("open %d\n", i)
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		want += line
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}

// manyFiles writes files of many sizes from several goroutines and reads each
// back.
func manyFiles(t *testing.T, dir string) {
	sizes := []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 1<<20 - 1, 1 << 20, 1<<20 + 1, 2<<20 + 77}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for _, n := range sizes {
				b := make([]byte, n)
				rand.NewChaCha8([32]byte{byte(w), byte(n), byte(n >> 8)}).Read(b)
				name := filepath.Join(dir, fmt.Sprintf("%d-%d", w, n))
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Error(err)
					return
				}
				got, err := os.ReadFile(name)
				if err != nil || sha256.Sum256(got) != sha256.Sum256(b) {
					t.Errorf("%d bytes: %d read back, or other content; %v", n, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}
