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
)

// TestAppendUnseen: two clients append in turns, opening anew for each line and
// looking at nothing else. Each line begins where the last one ended, though
// the kernel is not asked for the size in between.
func TestAppendUnseen(t *testing.T) {
	a, b := twoClients(t)
	var want []byte
	for round := range 60 {
		dir := a.Dir
		if round%2 == 1 {
			dir = b.Dir
		}
		if round%7 == 6 { // also where the file has become shorter
			if err := os.Truncate(filepath.Join(dir, "log"), int64(len(want)/2)); err != nil {
				t.Fatal(err)
			}
			want = want[:len(want)/2]
			continue
		}
		line := content(round, 10+round%50)
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(line)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		want = append(want, line...)
	}
	for _, dir := range []string{a.Dir, b.Dir} {
		if got, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, %v", firstDifference(got, want), err)
		}
	}
}

// TestSpliceUnseen: a process that opens a file that has grown elsewhere and splices it,
// without asking for its size, gets all of it.
func TestSpliceUnseen(t *testing.T) {
	a, b := twoClients(t)
	for round := range 20 {
		want := content(round, 1000+round*701)
		if err := os.WriteFile(filepath.Join(a.Dir, "f"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(b.Dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		n, err := unix.Splice(int(f.Fd()), nil, int(w.Fd()), nil, len(want)+1, 0)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes spliced, %s", round, n, firstDifference(got, want))
		}
	}
}

// TestReopenUnseen: a file that was changed elsewhere can be opened by way of a
// descriptor too, where there is no name that could be looked up again.
func TestReopenUnseen(t *testing.T) {
	a, b := twoClients(t)
	if err := os.WriteFile(filepath.Join(a.Dir, "f"), content(0, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(b.Dir, "f"), unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for round := 1; round < 10; round++ {
		want := content(round, 100+round*50)
		if err := os.WriteFile(filepath.Join(a.Dir, "f"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %s, %v", round, firstDifference(got, want), err)
		}
	}
}
