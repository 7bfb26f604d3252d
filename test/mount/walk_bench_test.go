package mount

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkWalk is stat(2) of a path eight directories deep that was walked
// before, by what the kernel may believe: names for as long as attributes, or
// none of them.
func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct{ name, words string }{
		{"own", "actimeo=600"},
		{"allow_other", "actimeo=600,allow_other"},
		{"default_permissions", "actimeo=600,allow_other,default_permissions"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := startServer(b, serverOptions{})
			m := s.mount(b, "tcp", c.words)
			file := makeDir(b, filepath.Join(m.Dir, "1", "2", "3", "4", "5", "6", "7", "8"), 0o755)
			before := m.Stats(b).Calls
			for b.Loop() {
				var st unix.Stat_t
				if err := unix.Stat(file, &st); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(m.Stats(b).Calls-before)/float64(b.N), "calls/op")
		})
	}
}
