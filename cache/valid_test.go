package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func st(n int) nfsclient.ChangeID {
	return nfsclient.ChangeByTimes(uint64(n), time.Unix(0, int64(n)), time.Unix(0, int64(n)))
}

// Own changes connect in every order of their replies.
func TestOwnChangesChainInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + r.IntN(8)
		v := validity{now: st(0)}
		for _, k := range r.Perm(n) {
			v.own(st(k), st(k+1))
		}
		if broken := v.settle(); broken || v.now != st(n) {
			t.Fatalf("%d changes: now %v, broken %v", n, v.now, broken)
		}
	}
}

func TestForeignChangeBreaksTheChain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 2 + r.IntN(7)
		missing := r.IntN(n - 1) // not the last: that one is not noticed here
		v := validity{now: st(0)}
		for _, k := range r.Perm(n) {
			if k != missing {
				v.own(st(k), st(k+1))
			}
		}
		if !v.settle() {
			t.Fatalf("change %d of %d was not missed", missing, n)
		}
	}
}

func TestChainsWithoutChangeOrInACircleEnd(t *testing.T) {
	v := validity{now: st(0)}
	v.own(st(0), st(0))
	v.own(st(5), st(5))
	v.own(st(1), st(0))
	v.own(st(0), st(1))
	if v.now != st(0) || v.settle() {
		t.Errorf("now %v", v.now)
	}
}

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
