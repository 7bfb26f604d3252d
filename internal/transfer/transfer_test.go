package transfer

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/test/must"
)

var seed = flag.Uint64("seed", 0, "of random data; 0 means another one each time")

// shaky is this machine's files, with what tests do to reads and writes.
type shaky struct {
	filetree.Local
	read, write func(name string, off int64, n int) error // nil: nothing; io errors replace the operation
}

type shakyFile struct {
	filetree.File
	name string
	t    *shaky
}

func (t *shaky) OpenFile(name string, flag int, perm fs.FileMode) (filetree.File, error) {
	f, err := t.Local.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &shakyFile{f, filepath.Base(name), t}, nil
}

func (f *shakyFile) ReadAt(p []byte, off int64) (int, error) {
	if f.t.read != nil {
		if err := f.t.read(f.name, off, len(p)); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

func (f *shakyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.t.write != nil {
		if err := f.t.write(f.name, off, len(p)); err != nil {
			return 0, err
		}
	}
	return f.File.WriteAt(p, off)
}

// copyAll copies from to to and returns the errors that were reported.
func copyAll(t *testing.T, from, to filetree.Tree, a, b string, o Options) []error {
	t.Helper()
	var errs []error
	o.Failed = func(err error) { errs = append(errs, err) }
	c := New(t.Context(), to, o)
	c.Copy(t.Context(), from, a, b)
	if n := c.Close(t.Context()); n != len(errs) {
		t.Errorf("Close says that %d failed, of %d that were reported", n, len(errs))
	}
	return errs
}

func random(t *testing.T, n int) []byte {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed=%d", s)
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)})
	_, _ = r.Read(b) // never fails
	return b
}

// TestWindow: no piece is begun before all are written that lie window pieces before it,
// whatever the order in which they are written; Options.Resume relies on it.
func TestWindow(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	want := random(t, 50*pieceSize+1)
	must.Do(t, os.WriteFile(from, want, 0o600))
	var mu sync.Mutex
	written := map[int64]bool{}
	first := int64(0) // the first piece that is not written
	turn := sync.NewCond(&mu)
	begun := 0
	tree := &shaky{write: func(_ string, off int64, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		k := off / pieceSize
		if k-first >= window {
			t.Errorf("piece %d is begun while piece %d is not written", k, first)
		}
		begun++
		turn.Broadcast()
		// Pieces of a window are written from the last to the first.
		for k%4 != 3 && k < 48 && begun < int(k/4*4)+4 {
			turn.Wait()
		}
		written[k] = true
		for written[first] {
			first++
		}
		return nil
	}}
	if errs := copyAll(t, filetree.Local{}, tree, from, to, Options{}); errs != nil {
		t.Fatal(errs)
	}
	if !bytes.Equal(must.Get[[]byte](t)(os.ReadFile(to)), want) {
		t.Error("the copy differs")
	}
}

// TestFailedWrite: what fails leaves the old target, and a part only for Resume, which ends
// as a whole copy.
func TestFailedWrite(t *testing.T) {
	for _, resume := range []bool{false, true} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		want := random(t, 40*pieceSize+17)
		must.Do(t, os.WriteFile(from, want, 0o600))
		must.Do(t, os.WriteFile(to, []byte("old"), 0o600))
		full := true
		tree := &shaky{write: func(_ string, off int64, _ int) error {
			if full && off >= 30*pieceSize {
				return syscall.ENOSPC
			}
			return nil
		}}
		errs := copyAll(t, filetree.Local{}, tree, from, to, Options{Resume: resume})
		if len(errs) != 1 || !errors.Is(errs[0], syscall.ENOSPC) {
			t.Errorf("resume %v: %v", resume, errs)
		}
		if b := must.Get[[]byte](t)(os.ReadFile(to)); string(b) != "old" {
			t.Errorf("resume %v: the old target is gone", resume)
		}
		if left := must.Get[[]os.DirEntry](t)(os.ReadDir(dir)); (len(left) == 3) != resume {
			t.Errorf("resume %v: %v was left", resume, left)
		}
		full = false
		if errs := copyAll(t, filetree.Local{}, tree, from, to, Options{Resume: resume}); errs != nil {
			t.Error(errs)
		}
		if !bytes.Equal(must.Get[[]byte](t)(os.ReadFile(to)), want) {
			t.Errorf("resume %v: the copy differs", resume)
		}
	}
}

// TestForeignPart: a part that others could have put there is neither followed nor used.
func TestForeignPart(t *testing.T) {
	dir := t.TempDir()
	from, to, victim := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "victim")
	must.Do(t, os.WriteFile(from, []byte("text"), 0o600))
	must.Do(t, os.WriteFile(victim, []byte("precious"), 0o600))
	part := partName(to, must.Get[fs.FileInfo](t)(os.Stat(from)))
	for _, put := range []func(string, string) error{os.Symlink, os.Link} {
		for _, resume := range []bool{false, true} {
			must.Do(t, put(victim, part))
			errs := copyAll(t, filetree.Local{}, filetree.Local{}, from, to, Options{Resume: resume})
			if (len(errs) > 0) != resume {
				t.Errorf("resume %v: %v", resume, errs)
			}
			if b := must.Get[[]byte](t)(os.ReadFile(victim)); string(b) != "precious" {
				t.Fatalf("resume %v: a copy was written through a part that leads elsewhere", resume)
			}
			_ = os.Remove(part)
			_ = os.Remove(to)
		}
	}
}

// TestShrunk: a source that becomes shorter while it is copied is an error, not a copy.
func TestShrunk(t *testing.T) {
	for _, size := range []int64{100, 5 * pieceSize} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		must.Do(t, os.WriteFile(from, nil, 0o600))
		must.Do(t, os.Truncate(from, size))
		tree := &shaky{read: func(string, int64, int) error { return os.Truncate(from, size/2) }}
		if errs := copyAll(t, tree, filetree.Local{}, from, to, Options{}); len(errs) != 1 || !errors.Is(errs[0], errShrunk) {
			t.Errorf("%d bytes: %v", size, errs)
		}
		if left := must.Get[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) != 1 {
			t.Errorf("%d bytes: %v was left", size, left)
		}
	}
}

// TestUnsized: a file that does not say its size, as those of /proc, is copied to its end.
func TestUnsized(t *testing.T) {
	to := filepath.Join(t.TempDir(), "to")
	if errs := copyAll(t, filetree.Local{}, filetree.Local{}, "/proc/version", to, Options{}); errs != nil {
		t.Fatal(errs)
	}
	if got, want := must.Get[[]byte](t)(os.ReadFile(to)), must.Get[[]byte](t)(os.ReadFile("/proc/version")); !bytes.Equal(got, want) {
		t.Errorf("copied %q", got)
	}
}

// TestIntoItself: nothing is copied onto or into itself, and no link is followed for ever.
func TestIntoItself(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	must.Do(t, os.Symlink("..", filepath.Join(dir, "a", "up")))
	for _, to := range []string{"a", "a/b", "./a/../a/b"} {
		errs := copyAll(t, filetree.Local{}, filetree.Local{}, filepath.Join(dir, "a"), dir+"/"+to, Options{Recursive: true})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "itself") {
			t.Errorf("to %s: %v", to, errs)
		}
	}
	other := t.TempDir()
	errs := copyAll(t, filetree.Local{}, filetree.Local{}, dir, other+"/copy", Options{Recursive: true, Follow: true})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "leads back") {
		t.Errorf("a link to above: %v", errs)
	}
}

// TestNoDeleteAfterFailure: what could not be read is not taken for missing.
func TestNoDeleteAfterFailure(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(from, "f"), []byte("text"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(to, "extra"), nil, 0o600))
	tree := &shaky{read: func(string, int64, int) error { return syscall.EIO }}
	o := Options{Recursive: true, Delete: true}
	if errs := copyAll(t, tree, filetree.Local{}, from, to, o); len(errs) != 2 {
		t.Errorf("%v", errs)
	}
	must.Get[fs.FileInfo](t)(os.Stat(filepath.Join(to, "extra")))
	if errs := copyAll(t, filetree.Local{}, filetree.Local{}, from, to, o); errs != nil {
		t.Error(errs)
	}
	if _, err := os.Stat(filepath.Join(to, "extra")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the source does not have: %v", err)
	}
}

// TestCancelled: a copy that is cancelled while a piece is under way ends, and does not begin
// more.
func TestCancelled(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	must.Do(t, os.WriteFile(from, make([]byte, 40*pieceSize), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	tree := &shaky{write: func(string, int64, int) error { cancel(); return ctx.Err() }}
	c := New(ctx, tree, Options{Failed: func(error) {}})
	c.Copy(ctx, filetree.Local{}, from, filepath.Join(dir, "to"))
	c.Close(ctx)
	if _, err := os.Stat(filepath.Join(dir, "to")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy that was cancelled: %v", err)
	}
}

// TestPartName: parts of all states of a source differ, and their names are short enough.
func TestPartName(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	seen := map[string]bool{}
	for _, text := range []string{"a", "ab"} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		part := partName(filepath.Join(dir, strings.Repeat("x", 255)), must.Get[fs.FileInfo](t)(os.Stat(name)))
		if base := filepath.Base(part); len(base) > 255 || filepath.Dir(part) != dir {
			t.Errorf("%s", part)
		}
		seen[part] = true
	}
	if len(seen) != 2 {
		t.Errorf("two states have one name: %v", seen)
	}
}
