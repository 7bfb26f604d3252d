package doctor

import (
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"
)

func TestFindLibrary(t *testing.T) {
	root := t.TempDir()
	rdmadevtest.Plant(t, root, map[string]string{
		"usr/lib/x86_64-linux-gnu/libmulti.so.1": "x",
		"usr/lib64/libplain.so.1@":               "libplain.so.1.2",
		"usr/lib64/libplain.so.1.2":              "x",
		"opt/ofed/lib/libconf.so.1":              "x",
		"etc/ld.so.conf.d/ofed.conf":             "# a comment\n\n/opt/ofed/lib\nrelative\n",
		"home/lib/libplain.so.1":                 "x",
		"usr/lib/libdangling.so.1@":              "nowhere",
		"usr/lib/libdir.so.1/file":               "x",
		"elsewhere/libelsewhere.so.1":            "x",
	})
	for _, c := range []struct{ name, path, want string }{
		{"libmulti.so.1", "", "usr/lib/x86_64-linux-gnu/libmulti.so.1"},
		{"libplain.so.1", "", "usr/lib64/libplain.so.1"},
		{"libplain.so.1", filepath.Join(root, "home/lib"), "home/lib/libplain.so.1"},
		{"libconf.so.1", "", "opt/ofed/lib/libconf.so.1"},
		{"libdangling.so.1", "", ""},
		{"libdir.so.1", "", ""},
		{"libelsewhere.so.1", "", ""},
	} {
		want := c.want
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := findLibrary(root, c.path, c.name); got != want {
			t.Errorf("%s with %q: %q, want %q", c.name, c.path, got, want)
		}
	}
}
