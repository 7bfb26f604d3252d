package coherence

import (
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
		v := chain{now: st(0)}
		for _, k := range r.Perm(n) {
			v.own(st(k), st(k+1))
		}
		if broken := v.finish(); broken || v.now != st(n) {
			t.Fatalf("%d changes: now %v, broken %v", n, v.now, broken)
		}
	}
}

func TestForeignChangeBreaksTheChain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 2 + r.IntN(7)
		missing := r.IntN(n - 1) // not the last: that one is not noticed here
		v := chain{now: st(0)}
		for _, k := range r.Perm(n) {
			if k != missing {
				v.own(st(k), st(k+1))
			}
		}
		if !v.finish() {
			t.Fatalf("change %d of %d was not missed", missing, n)
		}
	}
}

func TestChainsWithoutChangeOrInACircleEnd(t *testing.T) {
	v := chain{now: st(0)}
	v.own(st(0), st(0))
	v.own(st(5), st(5))
	v.own(st(1), st(0))
	v.own(st(0), st(1))
	if v.now != st(0) || v.finish() {
		t.Errorf("now %v", v.now)
	}
}
