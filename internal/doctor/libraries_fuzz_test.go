package doctor

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLibraryConf: whatever stands in ld.so.conf, each line names at most one
// directory, by an absolute path.
func FuzzLibraryConf(f *testing.F) {
	for _, text := range []string{"/opt/lib\n", "include *.conf\n# x\n\n/a\n", "/../../etc\n", "/\x00\xff", "   /x  \r\n/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dirs := confDirs("/root", text)
		if len(dirs) > strings.Count(text, "\n")+1 {
			t.Fatalf("%q names %q", text, dirs)
		}
		for _, d := range dirs {
			if !filepath.IsAbs(d) {
				t.Errorf("%q leads to %q", text, d)
			}
		}
	})
}
