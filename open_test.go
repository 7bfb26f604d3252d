package rdmafs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/test/must"
)

// TestOpenErrors: what cannot be opened says what it was, and what is wrong.
func TestOpenErrors(t *testing.T) {
	v := serve(t)
	for _, c := range []struct{ source, words, want string }{
		{"127.0.0.1", "", "the colon is missing"},
		{loopback, "frobnicate", `unknown mount option "frobnicate"`},
		{"127.0.0.1:/nothing", "", "/nothing"},
		{loopback, "port=1", "connection refused"},
	} {
		f, err := Open(context.Background(), c.source, v.options(t, "tcp", c.words))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.source) && c.words != "frobnicate" {
			t.Errorf("%s with %q: %v", c.source, c.words, err)
		}
		if err == nil {
			must.Do(t, f.Close(context.Background()))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, loopback, v.options(t, "tcp", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// TestReadOnly: with the option ro nothing is changed, whatever the server would
// let.
func TestReadOnly(t *testing.T) {
	v := serve(t)
	v.tree(t)
	f := must.Get[*FS](t)(Open(context.Background(), loopback, v.options(t, "tcp", "ro")))
	o := must.Get[*File](t)(f.OpenFile("a", os.O_RDONLY|os.O_CREATE, 0o600))
	for what, err := range map[string]error{
		"Create":    second(f.Create("new")),
		"OpenFile":  second(f.OpenFile("a", os.O_RDONLY|os.O_TRUNC, 0)),
		"WriteFile": f.WriteFile("a", nil, 0o600),
		"Mkdir":     f.Mkdir("new", 0o700),
		"Remove":    f.Remove("a"),
		"Rename":    f.Rename("a", "b"),
		"Link":      f.Link("a", "b"),
		"Symlink":   f.Symlink("a", "b"),
		"Chmod":     f.Chmod("a", 0),
		"Chtimes":   f.Chtimes("a", time.Now(), time.Now()),
		"Truncate":  f.Truncate("a", 0),
		"File":      o.Chmod(0),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must.Do(t, o.Close())
	must.Do(t, f.Close(context.Background()))
}

// TestUser: files are made by whom the options name, and belong to him.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the server acts as other users")
	}
	v := serve(t)
	o := v.options(t, "iwarp", "")
	o.User = &User{UID: 1234, GID: 2345, Groups: []uint32{3456}}
	f := must.Get[*FS](t)(Open(context.Background(), loopback, o))
	must.Do(t, f.WriteFile("mine", []byte("x"), 0o600))
	if st := must.Get[fs.FileInfo](t)(f.Stat("mine")).Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 2345 {
		t.Errorf("it belongs to %d:%d", st.Uid, st.Gid)
	}
	must.Do(t, f.Chown("mine", -1, 3456)) // to a group of his
	if err := second(f.WithUser(User{UID: 4321, GID: 3456}).ReadFile("mine")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user: %v", err)
	}
	must.Do(t, f.Close(context.Background()))
}

// TestLeavesNothing: when FS.Close has returned, with files open or not, what
// was written is on the server, and no goroutine is left.
func TestLeavesNothing(t *testing.T) {
	v := serve(t)
	v.tree(t)
	for _, network := range networks { // so that the server has all of its own
		f := must.Get[*FS](t)(Open(context.Background(), loopback, v.options(t, network, "")))
		must.Do(t, f.Close(context.Background()))
	}
	for _, network := range networks {
		before := runtime.NumGoroutine()
		for range 3 {
			f := must.Get[*FS](t)(Open(context.Background(), loopback, v.options(t, network, "")))
			o := must.Get[*File](t)(f.Create("open"))
			must.Get[int](t)(o.Write(make([]byte, 100_000)))
			must.Get[fs.File](t)(f.Open("d/e/c"))
			must.Get[fs.File](t)(f.Open("d"))
			must.Get[[]byte](t)(f.ReadFile("d/e/c"))
			must.Do(t, f.Close(context.Background()))
			if info, err := os.Stat(filepath.Join(v.dir, "open")); err != nil || info.Size() != 100_000 {
				t.Errorf("the server has %v, %v", info, err)
			}
		}
		// The server's side of a connection ends a little later.
		for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if after := runtime.NumGoroutine(); after > before {
			buf := make([]byte, 1<<20)
			t.Errorf("%s: %d goroutines before, %d after\n%s", network, before, after, buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestMount mounts by FUSE in this process.
func TestMount(t *testing.T) {
	all := options.Default()
	if err := mount.Check(&all); err != nil {
		t.Skip(err)
	}
	v := serve(t)
	for _, network := range networks {
		dir := t.TempDir()
		m := must.Get[*Mounted](t)(Mount(context.Background(), loopback, dir, v.options(t, network, "")))
		name := filepath.Join(dir, network)
		o := must.Get[*os.File](t)(os.Create(name))
		must.Get[int](t)(o.WriteString("through the kernel"))
		if err := m.Unmount(context.Background()); err == nil {
			t.Fatal("unmounted with a file open")
		}
		must.Do(t, o.Close())
		if got := must.Get[[]byte](t)(os.ReadFile(name)); string(got) != "through the kernel" {
			t.Errorf("the mount has %q", got)
		}
		must.Do(t, m.Unmount(context.Background()))
		m.Wait()
		if got := v.content(t, network); got != "through the kernel" {
			t.Errorf("the server has %q", got)
		}
		if left := must.Get[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) > 0 {
			t.Errorf("%v below the mount point", left)
		}
	}
}
