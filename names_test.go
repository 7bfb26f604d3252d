package rdmafs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/must"
)

// TestErrors: errors are those that package io/fs and syscall name, in a
// PathError or LinkError.
func TestErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		v.tree(t)
		must.Do(t, os.Symlink("loop", filepath.Join(v.dir, "loop")))
		must.Do(t, os.Mkdir(filepath.Join(v.dir, "private"), 0))
		must.Do(t, syscall.Mkfifo(filepath.Join(v.dir, "fifo"), 0o666))
		nobody := f.WithUser(User{UID: 4711, GID: 4711})
		for _, c := range []struct {
			what string
			err  error
			want error
		}{
			{"open what is not there", second(f.Open("d/nothing")), fs.ErrNotExist},
			{"open below what is not there", second(f.Open("no/thing")), fs.ErrNotExist},
			{"open below a file", second(f.Open("a/b")), syscall.ENOTDIR},
			{"open a directory to write", second(f.OpenFile("d", os.O_RDWR, 0)), syscall.EISDIR},
			{"make what is there", second(f.OpenFile("a", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)), fs.ErrExist},
			{"make what a link has the name of", second(f.OpenFile("loop", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)), fs.ErrExist},
			{"open a fifo", second(f.Open("fifo")), errors.ErrUnsupported},
			{"open a link itself", second(f.OpenFile("link", syscall.O_NOFOLLOW, 0)), syscall.ELOOP},
			{"follow a loop", second(f.Stat("loop")), syscall.ELOOP},
			{"read a directory", second(f.ReadFile("d")), syscall.EISDIR},
			{"list a file", second(f.ReadDir("a")), syscall.ENOTDIR},
			{"mkdir of what is there", f.Mkdir("d", 0o777), fs.ErrExist},
			{"mkdir of the root", f.Mkdir(".", 0o777), fs.ErrExist},
			{"remove what is not there", f.Remove("nothing"), fs.ErrNotExist},
			{"remove a directory that is not empty", f.Remove("d"), syscall.ENOTEMPTY},
			{"remove the root", f.Remove("."), syscall.EBUSY},
			{"rename what is not there", f.Rename("nothing", "something"), fs.ErrNotExist},
			{"rename a directory over a file", f.Rename("empty", "a"), syscall.ENOTDIR},
			{"link what is not there", f.Link("nothing", "something"), fs.ErrNotExist},
			{"symlink over a file", f.Symlink("a", "link"), fs.ErrExist},
			{"readlink of a file", second(f.ReadLink("a")), syscall.EINVAL},
			{"truncate below nothing", f.Truncate("a", -1), syscall.EINVAL},
			{"a name too long", f.Mkdir(strings.Repeat("n", 300), 0o777), syscall.ENAMETOOLONG},
			{"a name from the root", second(f.Open("/a")), fs.ErrInvalid},
			{"a name with ..", second(f.Stat("d/../a")), fs.ErrInvalid},
			{"an empty name", f.Mkdir("", 0o777), fs.ErrInvalid},
			{"a name with a zero", f.Mkdir("a\x00b", 0o777), fs.ErrInvalid},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", c.what, c.err, c.want)
			}
			var pe *fs.PathError
			var le *os.LinkError
			if !errors.As(c.err, &pe) && !errors.As(c.err, &le) {
				t.Errorf("%s: %T", c.what, c.err)
			}
		}
		if os.Geteuid() == 0 {
			for what, err := range map[string]error{
				"walk":  second(nobody.Stat("private/x")),
				"write": second(nobody.OpenFile("a", os.O_WRONLY, 0)),
				"chmod": nobody.Chmod("a", 0o777),
			} {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s as another user: %v", what, err)
				}
			}
		}
	})
}

// TestLinks: symbolic links are followed inside the export, and nowhere else.
func TestLinks(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		v.tree(t)
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(v.dir), "outside"), nil, 0o644))
		for name, to := range map[string]string{
			"away": "../../../outside", "top": "/", "parent": "..", "slash": "d/e/", "chain": "parent/top/d/up", "new": "d/made",
		} {
			must.Do(t, os.Symlink(to, filepath.Join(v.dir, name)))
		}
		must.Do(t, os.Symlink("a/", filepath.Join(v.dir, "nodir")))
		for name, want := range map[string]string{
			"link": "d/b", "d/up": "a", "root": "a", "top/a": "a", "parent/d/b": "d/b", "slash/c": "d/e/c", "chain": "a", "dlink/c": "d/e/c",
		} {
			if got := must.Get[[]byte](t)(f.ReadFile(name)); string(got) != v.content(t, want) {
				t.Errorf("%s is not %s", name, want)
			}
		}
		if _, err := f.Stat("away"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link to a file outside: %v", err)
		}
		if _, err := f.Stat("nodir"); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("a link to a file that is to be a directory: %v", err)
		}
		must.Do(t, f.WriteFile("new", []byte("through the link"), 0o644))
		if got := v.content(t, "d/made"); got != "through the link" {
			t.Errorf("made %q", got)
		}
		must.Do(t, f.Symlink("anything at all", "made"))
		if got := must.Get[string](t)(f.ReadLink("made")); got != "anything at all" {
			t.Errorf("readlink: %q", got)
		}
		if info := must.Get[fs.FileInfo](t)(f.Lstat("made")); info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("lstat: %v", info)
		}
	})
}

// TestChanges makes, renames and removes, and looks on the server.
func TestChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		must.Do(t, f.MkdirAll("one/two/three", 0o755))
		must.Do(t, f.MkdirAll("one/two", 0o755))
		must.Do(t, f.WriteFile("one/two/file", []byte("content"), 0o640))
		if err := f.MkdirAll("one/two/file/four", 0o755); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("MkdirAll below a file: %v", err)
		}
		must.Do(t, f.Rename("one/two/file", "moved"))
		must.Do(t, f.Link("moved", "one/linked"))
		if got := v.content(t, "one/linked"); got != "content" {
			t.Errorf("linked: %q", got)
		}
		must.Do(t, f.Chmod("moved", 0o600|fs.ModeSetgid|fs.ModeSticky))
		when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		must.Do(t, f.Chtimes("moved", time.Time{}, when))
		must.Do(t, f.Truncate("moved", 3))
		must.Do(t, f.Chtimes("moved", time.Time{}, when))
		info := must.Get[fs.FileInfo](t)(f.Stat("moved"))
		if info.Mode() != 0o600|fs.ModeSetgid|fs.ModeSticky || info.Size() != 3 || !info.ModTime().Equal(when) {
			t.Errorf("%v", info)
		}
		st := info.Sys().(*syscall.Stat_t)
		var want syscall.Stat_t
		must.Do(t, syscall.Stat(filepath.Join(v.dir, "moved"), &want))
		if st.Mode != want.Mode || st.Uid != want.Uid || st.Nlink != 2 || st.Mtim != want.Mtim || st.Ino != want.Ino {
			t.Errorf("%+v, on the server %+v", st, want)
		}
		o := must.Get[*File](t)(f.OpenFile("moved", os.O_RDWR, 0))
		must.Do(t, f.Remove("moved"))
		must.Do(t, f.Remove("one/linked"))
		if got := must.Get[[]byte](t)(io.ReadAll(o)); string(got) != "con" {
			t.Errorf("a removed file reads %q", got)
		}
		must.Do(t, o.Truncate(1))
		must.Do(t, o.Chmod(0o400))
		if info := must.Get[fs.FileInfo](t)(o.Stat()); info.Size() != 1 || info.Mode() != 0o400 {
			t.Errorf("%v", info)
		}
		must.Do(t, o.Close())
		must.Do(t, f.Remove("one/two/three"))
		must.Do(t, f.Remove("one/two"))
		must.Do(t, f.Remove("one"))
		must.Do(t, f.Sync())
		if left := must.Get[[]os.DirEntry](t)(os.ReadDir(v.dir)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestReadDir lists a directory piece by piece, from the start again, and with
// names that are no UTF-8.
func TestReadDir(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		var want []string
		for n := range 300 {
			name := strings.Repeat("n", n%200+1) + "\xff" + string(rune('a'+n/200))
			want = append(want, name)
			must.Do(t, os.WriteFile(filepath.Join(v.dir, name), nil, 0o644))
		}
		slices.Sort(want)
		d := must.Get[*File](t)(f.OpenFile(".", 0, 0))
		for round := range 2 {
			var got []string
			for {
				list, err := d.ReadDir(7)
				for _, e := range list {
					got = append(got, e.Name())
				}
				if err == io.EOF {
					break
				}
				if err != nil || len(list) == 0 || len(list) > 7 {
					t.Fatal(len(list), err)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("round %d: %d names of %d", round, len(got), len(want))
			}
			must.Get[int64](t)(d.Seek(0, io.SeekStart))
		}
		must.Do(t, d.Close())
		list := must.Get[[]fs.DirEntry](t)(f.ReadDir("."))
		for n, e := range list {
			if e.Name() != want[n] {
				t.Fatalf("entry %d is %q", n, e.Name())
			}
		}
		if _, err := f.Stat(want[0]); err != nil {
			t.Error(err)
		}
	})
}
