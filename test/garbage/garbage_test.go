package garbage

import (
	"testing"
)

// TestGarbage: what the client allocates for an operation, from the cache to the wire.
func TestGarbage(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			r := start(t, network)
			r.warm(t)
			for _, o := range operations {
				t.Run(o.name, func(t *testing.T) {
					if o.most < 0 {
						t.Skip("its background writes are not counted")
					}
					f := r.open(t, o.mode)
					buf, off := make([]byte, o.size), int64(0)
					AtMost(t, o.most, func() {
						r.check(o.do(ctx, f, buf, off))
						off = o.next(off)
					})
				})
			}
		})
	}
}

// BenchmarkGarbage shows the allocations of an operation, of the client (allocs/op) and of
// the server.
func BenchmarkGarbage(b *testing.B) {
	for _, network := range networks {
		b.Run(network, func(b *testing.B) {
			r := start(b, network)
			for _, o := range operations {
				b.Run(o.name, func(b *testing.B) {
					f := r.open(b, o.mode)
					buf, off := make([]byte, o.size), int64(0)
					for range 50 {
						r.check(o.do(ctx, f, buf, off))
						off = o.next(off)
					}
					r.server()
					b.ReportAllocs()
					n := 0
					for b.Loop() {
						r.check(o.do(ctx, f, buf, off))
						off = o.next(off)
						n++
					}
					objects, bytes := r.server()
					b.ReportMetric(float64(objects)/float64(n), "serverallocs/op")
					b.ReportMetric(float64(bytes)/float64(n), "serverB/op")
				})
			}
		})
	}
}
