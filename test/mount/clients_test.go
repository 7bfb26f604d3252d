package mount

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/posix"
)

// twoClients are two mounts of one server, over both protocols.
func twoClients(t *testing.T) (a, b *Mounted) {
	s := startServer(t, serverOptions{})
	return s.mount(t, "rdma", ""), s.mount(t, "tcp", "")
}

// content is n bytes that depend on the round and the position.
func content(round, n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "%06d:%06d ", round, len(b))
	}
	return b[:n]
}

// firstDifference says where two contents part.
func firstDifference(got, want []byte) string {
	for k := range min(len(got), len(want)) {
		if got[k] != want[k] {
			return fmt.Sprintf("%d of %d bytes, differing from byte %d: %q", len(got), len(want), k, got[k:min(len(got), k+16)])
		}
	}
	return fmt.Sprintf("%d of %d bytes", len(got), len(want))
}

// TestCloseToOpen: what one client wrote before close, another sees after open,
// whether the size changes or not, and however short the time between.
func TestCloseToOpen(t *testing.T) {
	a, b := twoClients(t)
	for _, c := range []struct {
		name string
		size func(round int) int
	}{
		{"same size", func(int) int { return 5000 }},
		{"growing", func(round int) int { return 100 + round*37 }},
		{"shrinking", func(round int) int { return 60000 - round*151 }},
		{"any", func(round int) int { return round * 7919 % 300_000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for round := range 200 {
				writer, reader := a.Dir, b.Dir
				if round%2 == 1 {
					writer, reader = reader, writer
				}
				want := content(round, c.size(round))
				if round%3 == 0 {
					overwrite(t, filepath.Join(writer, "f"), want)
				} else if err := os.WriteFile(filepath.Join(writer, "f"), want, 0o644); err != nil {
					t.Fatal(err)
				}
				for _, dir := range []string{reader, writer} {
					got, err := os.ReadFile(filepath.Join(dir, "f"))
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("round %d: %s sees %s", round, filepath.Base(filepath.Dir(dir)), firstDifference(got, want))
					}
				}
			}
		})
	}
}

// overwrite makes b the content of a file without opening it with O_TRUNC.
func overwrite(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAppendInTurns: two clients append in turns, opening anew for each line.
func TestAppendInTurns(t *testing.T) {
	a, b := twoClients(t)
	var want []byte
	for round := range 200 {
		dir := a.Dir
		if round%2 == 1 {
			dir = b.Dir
		}
		line := content(round, 10+round%50)
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		want = append(want, line...)
		for _, dir := range []string{a.Dir, b.Dir} {
			if got, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("round %d: %s, %v", round, firstDifference(got, want), err)
			}
		}
	}
}

// TestFollow: a reader that keeps a growing file open never reads bytes that
// were not written: not even zeros behind the end that it knew.
func TestFollow(t *testing.T) {
	s := startServer(t, serverOptions{})
	a, b := s.mount(t, "rdma", ""), s.mount(t, "tcp", "actimeo=0")
	w, err := os.Create(filepath.Join(a.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := os.Open(filepath.Join(b.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 1<<16)
	at := 0
	var all []byte
	for round := range 300 {
		line := content(round, 10+round%70)
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		all = append(all, line...)
		if st, err := r.Stat(); err != nil || st.Size() != int64(len(all)) {
			t.Fatalf("round %d: size %d of %d, %v", round, st.Size(), len(all), err)
		}
		n, err := r.ReadAt(buf, int64(at))
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if !bytes.Equal(buf[:n], all[at:]) {
			t.Fatalf("round %d: from byte %d %s", round, at, firstDifference(buf[:n], all[at:]))
		}
		at += n
	}
}

// TestReplacedElsewhere: a file that another client has replaced by rename or
// removed is not opened any more, though its name is believed for longer.
func TestReplacedElsewhere(t *testing.T) {
	a, b := twoClients(t)
	for round := range 100 {
		writer, reader := a.Dir, b.Dir
		if round%2 == 1 {
			writer, reader = reader, writer
		}
		want := content(round, 3000)
		if err := os.WriteFile(filepath.Join(writer, "new"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(writer, "new"), filepath.Join(writer, "f")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(reader, "f")); err != nil && round > 0 || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("round %d: %s, %v", round, firstDifference(got, want), err)
		}
	}
	if err := os.Remove(filepath.Join(a.Dir, "f")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(b.Dir, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed elsewhere: %v", err)
	}
}

// TestMappedWritesElsewhere: what one client wrote through a mapping and synced,
// another sees after open.
func TestMappedWritesElsewhere(t *testing.T) {
	a, b := twoClients(t)
	name := filepath.Join(a.Dir, "f")
	if err := os.WriteFile(name, make([]byte, 20_000), 0o644); err != nil {
		t.Fatal(err)
	}
	for round := range 50 {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		mem, err := unix.Mmap(int(f.Fd()), 0, 20_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		want := content(round, 20_000)
		err = posix.Store(mem, want)
		if err == nil && round%2 == 0 {
			err = unix.Msync(mem, unix.MS_SYNC)
		}
		if err := errors.Join(err, f.Close(), unix.Munmap(mem)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(b.Dir, "f")); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %s, %v", round, firstDifference(got, want), err)
		}
	}
}
