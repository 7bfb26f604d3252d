package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBoundedLog: the last lines are there in order, however many were written, in two files of
// bounded size.
func TestBoundedLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	l, err := openBoundedLog(name)
	if err != nil {
		t.Fatal(err)
	}
	const count = 40_000
	for k := range count {
		if k == count/2 { // another daemon goes on with it
			if l, err = openBoundedLog(name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(l, "line %d of what has happened here in the end\n", k); err != nil {
			t.Fatal(err)
		}
	}
	uid := uint32(os.Geteuid())
	for _, lines := range []int{1, 100, maxLogBytes / 64} {
		all, err := lastLines(name, uid, lines)
		if err != nil || len(all) != lines {
			t.Fatalf("%d lines, %v", len(all), err)
		}
		for k, line := range all {
			if want := fmt.Sprintf("line %d ", count-lines+k); !strings.HasPrefix(line, want) {
				t.Fatalf("%q, want %q", line, want)
			}
		}
	}
	for _, n := range []string{name, olderLog(name)} {
		if st, err := os.Stat(n); err != nil || st.Size() > maxLogBytes || st.Mode() != 0o600 {
			t.Errorf("%v, %v", st, err)
		}
	}
	if l.remove(); !errors.Is(unix.Access(name, 0), unix.ENOENT) || !errors.Is(unix.Access(olderLog(name), 0), unix.ENOENT) {
		t.Error("not removed")
	}
}

// TestForeignLog: what a daemon calls its log is read only if it is a file of the daemon's user.
func TestForeignLog(t *testing.T) {
	dir, uid := t.TempDir(), uint32(os.Geteuid())
	file, link, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, []byte("a\nb"), 0o600), os.Symlink(file, link), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	if all, err := lastLines(file, uid, 5); err != nil || len(all) != 2 {
		t.Errorf("%q, %v", all, err)
	}
	for _, name := range []string{link, fifo, dir, filepath.Join(dir, "none")} {
		if all, err := lastLines(name, uid, 5); err == nil {
			t.Errorf("%s: %q", name, all)
		}
	}
	if _, err := lastLines(file, uid+1, 5); err == nil || !strings.Contains(err.Error(), "no file of user") {
		t.Errorf("a file of another user: %v", err)
	}
}
