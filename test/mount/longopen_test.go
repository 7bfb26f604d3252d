package mount

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadOpenForLong: a descriptor that stays open, and a mapping, show what
// another client has written since, though the kernel has the pages and no process
// asks for attributes.
func TestReadOpenForLong(t *testing.T) {
	const size = 20_000
	args := childArgs(t)
	if args == nil {
		s := startServer(t, serverOptions{})
		a, b := s.mount(t, "rdma", ""), s.mount(t, "tcp", "actimeo=1")
		runChild(t, filepath.Join(a.Dir, "f"), filepath.Join(b.Dir, "f"))
		return
	}
	there, here := args[0], args[1]
	overwrite(t, there, content(0, size))
	f, err := os.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	for round := range 3 {
		want := content(round, size)
		overwrite(t, there, want)
		got := make([]byte, size)
		var mapped bool
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if _, err := readAt(f, got, 0); err != nil {
				t.Fatal(err)
			}
			if err := touching(func() error { mapped = bytes.Equal(mem, want); return nil }); err != nil {
				t.Fatal(err)
			}
			if mapped && bytes.Equal(got, want) {
				break
			}
		}
		if !mapped || !bytes.Equal(got, want) {
			t.Fatalf("round %d: a read gives %s; the mapping is current: %v", round, firstDifference(got, want), mapped)
		}
	}
}
