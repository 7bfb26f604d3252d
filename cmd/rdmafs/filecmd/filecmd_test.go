package filecmd

import (
	"crypto/sha256"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/transfer"
)

func TestOperand(t *testing.T) {
	for _, c := range []struct{ text, export, fails string }{
		{"file", "", ""},
		{"./a:b", "", ""},
		{"/a:b", "", ""},
		{"a/b:/c", "", ""},
		{"server:/export", "/export", ""},
		{"server:/export/", "/export", ""},
		{"server:/a/../b//c/.", "/b/c", ""},
		{"server:/", "/", ""},
		{"[2001:db8::1]:/x/", "/x", ""},
		{"server:x", "", "must be an absolute path"},
		{"a:b", "", "./a:b"},
		{":/x", "", "the server is missing"},
		{"", "", "empty"},
	} {
		o, err := parseOperand(c.text)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v", c.text, err)
			}
		case err != nil || o.remote != (c.export != "") || o.server.Export != c.export:
			t.Errorf("%q: %+v, %v", c.text, o, err)
		}
	}
}

func FuzzOperand(f *testing.F) {
	for _, s := range []string{"a", "s:/x", "[::1]:/x", "./a:b", ":", "["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseOperand(s)
		if err != nil || !o.remote {
			return
		}
		again, err := parseOperand(o.server.Text)
		if err != nil || again.server != o.server {
			t.Errorf("%q is %+v, and that is %+v, %v", s, o.server, again.server, err)
		}
		if at := o.at("/else"); at.Export != "/else" || !strings.HasSuffix(at.Text, ":/else") {
			t.Errorf("%q at /else is %+v", s, at)
		}
	})
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		export, path, name string // name is empty if the export does not hold it
	}{
		{"/", "/", "."}, {"/", "/a", "a"}, {"/a", "/a", "."}, {"/a", "/a/b/c", "b/c"}, {"/a", "/ab", ""}, {"/a/b", "/a", ""},
	} {
		if holds(c.export, c.path) != (c.name != "") {
			t.Errorf("%s holds %s: %v", c.export, c.path, !(c.name != ""))
		}
		if c.name != "" && within(c.path, c.export) != c.name {
			t.Errorf("%s in %s is %q", c.path, c.export, within(c.path, c.export))
		}
	}
}

func TestModeString(t *testing.T) {
	for want, m := range map[string]fs.FileMode{
		"-rw-r--r--": 0o644,
		"drwxr-x---": fs.ModeDir | 0o750,
		"lrwxrwxrwx": fs.ModeSymlink | 0o777,
		"-rwsr-Sr-T": fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o744,
		"crw-------": fs.ModeDevice | fs.ModeCharDevice | 0o600,
		"drwxrwxrwt": fs.ModeDir | fs.ModeSticky | 0o777,
	} {
		if got := modeString(m); got != want {
			t.Errorf("%v is %s, not %s", m, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1.0K", 10189: "10K", 1<<20 - 1: "1.0M", 15 << 30: "15G", 1 << 60: "1.0E"} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for format, good := range map[string]bool{"": true, "%n %s%%": true, "%": false, "%q": false, "%n%": false} {
		if err := checkFormat(format); (err == nil) != good {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		count transfer.Count
		want  string
	}{
		{transfer.Count{}, "0 of 0 files, 0 of 0, 0/s, still looking"},
		{transfer.Count{Files: 1, FilesFound: 3, Bytes: 10 << 20, BytesFound: 40 << 20, All: true}, "1 of 3 files, 10M of 40M, 1.0M/s, 30s left"},
		{transfer.Count{Files: 3, FilesFound: 3, Bytes: 40 << 20, BytesFound: 40 << 20, All: true}, "3 of 3 files, 40M of 40M, 4.0M/s"},
	} {
		if got := progressLine(c.count, 10*time.Second); got != c.want {
			t.Errorf("%+v: %q", c.count, got)
		}
	}
}

func TestListTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"Nov  2 08:30": time.Date(2026, 11, 2, 8, 30, 0, 0, time.UTC),
		"Jan 12  2026": time.Date(2026, 1, 12, 8, 30, 0, 0, time.UTC),
		"Nov 23  2026": now.AddDate(0, 0, 1),
	} {
		if got := listTime(at, now); got != want {
			t.Errorf("%v is %q, not %q", at, got, want)
		}
	}
}

// FuzzList: lines of checksums come from others.
func FuzzList(f *testing.F) {
	sum := strings.Repeat("ab", sha256.Size)
	for _, s := range []string{sum + "  name\n", sum + " *name", "\\" + sum + `  a\\b\nc`, sum + "  ", "x", sum + "\n" + sum} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := readList(strings.NewReader(s), sha256.Size)
		if err != nil {
			return
		}
		for _, w := range list {
			mark, shown := escapeName(w.name)
			again, err := parseLine(mark+w.hex+"  "+shown, sha256.Size)
			if err != nil || again.hex != w.hex {
				t.Errorf("%q is %+v, and that is %+v, %v", s, w, again, err)
			}
		}
	})
}
