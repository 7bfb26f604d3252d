package garbage

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/options"
)

// BenchmarkMount shows the allocations of a READ or WRITE that another process makes on a
// mount that this one serves, those of go-fuse included.
func BenchmarkMount(b *testing.B) {
	o := options.Default()
	if err := mount.Check(&o); err != nil {
		b.Skip(err)
	}
	for _, network := range networks {
		kernel := fs.NewKernel()
		r := startWith(b, network, kernel)
		dir := b.TempDir()
		f, err := mount.Attach(r.session, kernel, mount.Target{Dir: dir}, false)
		r.check(err)
		b.Cleanup(func() {
			r.check(mount.Unmount(f))
			f.Wait()
		})
		for _, c := range []struct{ name, words string }{
			{"read/4KiB", "if=%s/file of=/dev/null iflag=direct bs=4k"},
			{"read/1MiB", "if=%s/file of=/dev/null iflag=direct bs=1M"},
			{"writedirect/4KiB", "of=%s/file if=/dev/zero oflag=direct conv=notrunc bs=4k"},
			{"write/4KiB", "of=%s/file if=/dev/zero conv=notrunc,fsync bs=4k"},
		} {
			b.Run(network+"/"+c.name, func(b *testing.B) {
				dd := func(n int) {
					cmd := exec.Command("sh", "-c", fmt.Sprintf("exec dd status=none count=%d "+c.words, n, dir))
					cmd.Stderr = os.Stderr
					r.check(cmd.Run())
				}
				n := 2000
				if c.name == "read/1MiB" {
					n = fileSize >> 20
				}
				dd(n)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					dd(n)
				}
				b.ReportMetric(float64(n), "requests/op")
			})
		}
	}
}
