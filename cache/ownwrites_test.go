package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Writes side by side, answered in any order, are recognized as ours.
func TestParallelOwnWritesKeepPages(t *testing.T) {
	for _, coarse := range []int{1, 5, 1000} {
		for _, noPre := range []bool{false, true} {
			t.Run(fmt.Sprintf("coarse=%d,noPre=%v", coarse, noPre), func(t *testing.T) {
				srv := newFake(t)
				srv.coarse, srv.noPre = coarse, noPre
				srv.hook = jitter(rand.New(rand.NewPCG(uint64(coarse), 8)))
				cfg := testConfig()
				cfg.WSize = 16 << 10
				c := newCache(t, srv, cfg)
				f := create(t, c, "a")
				for n := range 4 {
					write(t, f, pattern(1<<20, byte(n)), 0)
					check(t, f.Flush(ctx))
					g, keep, err := c.Open(ctx, alice, f.i, rw)
					check(t, err)
					g.Release()
					if !keep {
						t.Fatalf("round %d: pages are dropped for our own changes", n)
					}
				}
				f.Release()
			})
		}
	}
}
