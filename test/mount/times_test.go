package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTimesOfWrittenFiles: what stat shows of a file that was just written is what
// it shows after the close and later, and what another client sees: the server's
// time, be its clock ahead or behind.
func TestTimesOfWrittenFiles(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		s := startServer(t, serverOptions{clockAhead: int64(ahead / time.Second)})
		there := s.mount(t, "tcp", "actimeo=0")
		for _, words := range []string{"", "actimeo=0"} {
			here := s.mount(t, "rdma", words)
			for _, size := range []int{5, 300_000, 3 << 20} {
				t.Run(fmt.Sprintf("%v,%s,%d", ahead, words, size), func(t *testing.T) {
					base := fmt.Sprintf("%s%d", words, size)
					name := filepath.Join(here.Dir, base)
					f, err := os.Create(name)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if _, err := f.Write(content(1, size)); err != nil {
						t.Fatal(err)
					}
					first := timesOf(t, name)
					if d := time.Until(first.mtime) - ahead; d.Abs() > ahead.Abs()/2 {
						t.Errorf("mtime is %v off the server's clock", d)
					}
					same := func(when string, name string) {
						t.Helper()
						if now := timesOf(t, name); now != first {
							t.Errorf("%s: mtime %v, ctime %v; it was %v, %v", when, now.mtime, now.ctime, first.mtime, first.ctime)
						}
					}
					same("again", name)
					if err := f.Sync(); err != nil {
						t.Fatal(err)
					}
					same("after fsync", name)
					if err := f.Close(); err != nil {
						t.Fatal(err)
					}
					same("after close", name)
					same("elsewhere", filepath.Join(there.Dir, base))
					if g, err := os.Open(name); err != nil {
						t.Error(err)
					} else {
						g.Close()
					}
					same("after open", name)
				})
			}
		}
	}
}

type times struct{ mtime, ctime time.Time }

func timesOf(t *testing.T, name string) times {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return times{time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())}
}
