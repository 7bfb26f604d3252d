package look

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWalk: a path is followed as the kernel follows it, and each place is reported
// before it is touched.
func TestWalk(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(top, name) }
	for _, d := range []string{"a/b", "c"} {
		if err := os.MkdirAll(in(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in("file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"abs": in("a"), "rel": "a/b", "a/up": "../c", "twice": "rel", "loop": "loop", "dangling": "none"} {
		if err := os.Symlink(target, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, at   string
		found, dir bool
		errno      syscall.Errno
	}{
		{"a", "a", true, true, 0},
		{"abs/b", "a/b", true, true, 0},
		{"rel", "a/b", true, true, 0},
		{"twice/..", "a", true, true, 0},
		{"abs/up/./../c", "c", true, true, 0},
		{"file", "file", true, false, 0},
		{"none", "none", false, false, syscall.ENOENT},
		{"dangling", "none", false, false, syscall.ENOENT},
		{"file/x", "file/x", false, false, syscall.ENOTDIR},
		{"loop", "loop", false, false, syscall.ELOOP},
	} {
		var s, reported Seen
		s.walk(top+"/"+c.path, func() { reported = s })
		if want := (Seen{in(c.at), c.found, c.dir, c.errno}); s != want {
			t.Errorf("%s: %+v, want %+v", c.path, s, want)
		}
		if reported.At != s.At {
			t.Errorf("%s: %s was touched, and %s reported", c.path, s.At, reported.At)
		}
	}
	var s Seen
	if s.walk("/", func() {}); s != (Seen{At: "/", Found: true, Dir: true}) {
		t.Errorf("/: %+v", s)
	}
}

// TestSteps: what the one process reports, the other understands.
func TestSteps(t *testing.T) {
	dir := t.TempDir()
	strange := filepath.Join(dir, "new\nline and \xff")
	if err := os.Mkdir(strange, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{strange, filepath.Join(dir, "none"), "/"} {
		var reported strings.Builder
		lookFor(path, &reported)
		var here, there Seen
		here.walk(path, func() {})
		for step := range strings.SplitSeq(strings.TrimSuffix(reported.String(), "\x00"), "\x00") {
			if err := there.take(step); err != nil {
				t.Fatal(err)
			}
		}
		if here != there {
			t.Errorf("%+v became %+v", here, there)
		}
	}
}
