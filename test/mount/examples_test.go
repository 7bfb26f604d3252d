package mount

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTwoMachines does what docs/semantics.md shows under "Two machines, one
// file", as far as it does not depend on when attributes expire.
func TestTwoMachines(t *testing.T) {
	a, b := twoClients(t)
	on := func(m *Mounted, name string) string { return filepath.Join(m.Dir, name) }
	open := func(name string, flag int) *os.File {
		t.Helper()
		f, err := os.OpenFile(name, flag, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, r io.Reader, text string) {
		t.Helper()
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%s reads %q, %v; want %q", what, got, err, text)
		}
	}

	t.Run("close and open", func(t *testing.T) {
		put(on(a, "f"), "old")
		want("B before", open(on(b, "f"), os.O_RDONLY), "old")
		f := open(on(a, "f"), os.O_RDWR)
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		want("A before it closes", open(on(a, "f"), os.O_RDONLY), "new")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		want("B after A's close", open(on(b, "f"), os.O_RDONLY), "new")
	})

	t.Run("append in turns", func(t *testing.T) {
		put(on(a, "log"), "")
		for _, step := range []struct {
			m    *Mounted
			text string
		}{{a, "A1\n"}, {b, "B1\n"}, {a, "A2\n"}} {
			f := open(on(step.m, "log"), os.O_WRONLY|os.O_APPEND)
			if _, err := f.WriteString(step.text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want("B", open(on(b, "log"), os.O_RDONLY), "A1\nB1\nA2\n")
	})

	t.Run("rename over an open file", func(t *testing.T) {
		put(on(a, "conf"), "old")
		put(on(a, "conf.new"), "new")
		here, there := open(on(a, "conf"), os.O_RDONLY), open(on(b, "conf"), os.O_RDONLY)
		if err := os.Rename(on(a, "conf.new"), on(a, "conf")); err != nil {
			t.Fatal(err)
		}
		want("A's descriptor", here, "old")
		if hidden, err := filepath.Glob(on(a, ".nfs*")); len(hidden) != 1 {
			t.Errorf("while A has it open the server has %q, %v", hidden, err)
		}
		want("B's descriptor, while A has the file open", there, "old")
		if _, err := os.ReadDir(b.Dir); err != nil { // asks for the directory's state
			t.Fatal(err)
		}
		want("B after it has listed the directory", open(on(b, "conf"), os.O_RDONLY), "new")
	})

	t.Run("replaced elsewhere", func(t *testing.T) {
		put(on(a, "conf"), "old")
		put(on(a, "conf.new"), "new")
		there := open(on(b, "conf"), os.O_RDONLY)
		if err := os.Rename(on(a, "conf.new"), on(a, "conf")); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Read(make([]byte, 3)); !errors.Is(err, unix.ESTALE) {
			t.Errorf("B's descriptor of what A has replaced: %v", err)
		}
		want("B anew", open(on(b, "conf"), os.O_RDONLY), "new")
	})

	t.Run("removed elsewhere", func(t *testing.T) {
		put(on(a, "gone"), "old")
		there := open(on(b, "gone"), os.O_RDONLY)
		if err := os.Remove(on(a, "gone")); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Read(make([]byte, 3)); !errors.Is(err, unix.ESTALE) {
			t.Errorf("B's descriptor of what A has removed: %v", err)
		}
	})

	t.Run("exclusive", func(t *testing.T) {
		open(on(a, "lock"), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if _, err := os.OpenFile(on(b, "lock"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); !errors.Is(err, os.ErrExist) {
			t.Errorf("B makes what A has made: %v", err)
		}
	})

	t.Run("both lock", func(t *testing.T) {
		put(on(a, "db"), "")
		first, second := open(on(a, "db"), os.O_RDWR), open(on(a, "db"), os.O_RDWR)
		other := open(on(b, "db"), os.O_RDWR)
		if err := unix.Flock(int(first.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("a second lock on A: %v", err)
		}
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("B is not told of A's lock: %v", err)
		}
		if _, err := other.Read(make([]byte, 3)); err != io.EOF {
			t.Errorf("B reads of an empty file: %v", err)
		}
		if _, err := first.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(first.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(other); err != nil || string(b) != "new" {
			t.Errorf("under the lock B reads %q, %v", b, err)
		}
	})
}
