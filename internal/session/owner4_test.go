package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwner4: a name is found again after a process that was killed, shared with no other that lives, one
// for each key, and forgotten after a clean end.
func TestOwner4(t *testing.T) {
	dir := t.TempDir()
	take := func(key string) *owner4 {
		t.Helper()
		o, err := openOwner4(dir, key)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	end := func(o *owner4, clean bool) {
		t.Helper()
		if err := o.release(clean); err != nil {
			t.Error(err)
		}
	}
	a := take("a")
	if a.found || a.f == nil {
		t.Errorf("the first: %+v", a)
	}
	other, twin := take("b"), take("a")
	if bytes.Equal(a.id, other.id) || bytes.Equal(a.id, twin.id) || twin.f != nil {
		t.Errorf("%s, %s and %s", a.id, other.id, twin.id)
	}
	end(twin, true) // takes nothing of a's away
	end(a, false)
	again := take("a")
	if !again.found || !bytes.Equal(again.id, a.id) {
		t.Errorf("after it was killed: %s instead of %s", again.id, a.id)
	}
	if err := again.renew(); err != nil || bytes.Equal(again.id, a.id) {
		t.Errorf("renewed: %s, %v", again.id, err)
	}
	renewed := again.id
	end(again, false)
	if again = take("a"); !bytes.Equal(again.id, renewed) {
		t.Errorf("%s instead of the renewed %s", again.id, renewed)
	}
	end(again, true)
	if again = take("a"); again.found || bytes.Equal(again.id, renewed) {
		t.Errorf("after a clean end: %s", again.id)
	}
	end(again, true)
	end(other, true)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// TestOwner4Files: what is no name is replaced; what is not a file is refused.
func TestOwner4Files(t *testing.T) {
	dir := t.TempDir()
	o, err := openOwner4(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	name := o.f.Name()
	if err := o.release(false); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "rdmafs host cut", "other\n", "rdmafs a\nrdmafs b\n", strings.Repeat("rdmafs ", 1000) + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := openOwner4(dir, "a")
		if err != nil || o.found || len(o.id) > 400 {
			t.Errorf("%q: %+v, %v", text, o, err)
			continue
		}
		if err := o.release(false); err != nil {
			t.Error(err)
		}
		if b, _ := os.ReadFile(name); string(b) != string(o.id)+"\n" {
			t.Errorf("%q is in the file", b)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), name); err != nil {
		t.Fatal(err)
	}
	if _, err := openOwner4(dir, "a"); err == nil {
		t.Error("a symbolic link was followed")
	}
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := openOwner4(dir, "a"); err == nil {
		t.Error("a FIFO was read")
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if o, err = openOwner4(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(name), o.release(true)); err != nil {
		t.Errorf("after somebody else removed the file: %v", err)
	}
	if _, err := openOwner4(filepath.Join(dir, "none"), "a"); err == nil {
		t.Error("no error without a directory")
	}
}
