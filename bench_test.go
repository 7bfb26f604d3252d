package rdmafs

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
)

// BenchmarkReadAt reads a file of 16 MiB, in pieces.
func BenchmarkReadAt(b *testing.B) {
	for _, network := range networks {
		v := serve(b)
		f := v.open(b, network)
		const size = 16 << 20
		must.Do(b, f.WriteFile("file", make([]byte, size), 0o600))
		o := must.Get[*File](b)(f.OpenFile("file", 0, 0))
		for _, n := range []int{4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", network, n>>10), func(b *testing.B) {
				buf := make([]byte, n)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				off := int64(0)
				for b.Loop() {
					must.Get[int](b)(o.ReadAt(buf, off))
					off = (off + int64(n)) % size
				}
			})
		}
		must.Do(b, o.Close())
	}
}

// BenchmarkStat asks for attributes that are cached.
func BenchmarkStat(b *testing.B) {
	v := serve(b)
	v.tree(b)
	f := v.open(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Stat("d/e/c"); err != nil {
			b.Fatal(err)
		}
	}
}
