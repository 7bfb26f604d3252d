package writeback

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "repeat a test that has failed and printed this seed; 0: a new one")

// seeds is what each of the rounds of t has its random numbers from: the one
// that was asked for, or new ones.
func seeds(rounds int) (all []uint64) {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	first := 1 + rand.Uint64N(1<<32)
	for k := range rounds {
		all = append(all, first+uint64(k))
	}
	return all
}

// sayHow prints how to repeat a round of t unless it has ended well.
func sayHow(t *testing.T, seed uint64, ended *bool) {
	if !*ended {
		t.Logf("to repeat: go test ./cache/writeback -run '^%s$' -seed=%d", t.Name(), seed)
	}
}
