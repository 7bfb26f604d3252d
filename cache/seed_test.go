package cache

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "repeat the round of a model test that has failed and printed this seed; 0: new ones")

// eachSeed runs round as subtests, with the seed that was asked for or as many
// new ones as there are rounds. A round that fails says how to repeat it, as far
// as goroutines that run side by side can be.
func eachSeed(t *testing.T, rounds int, parallel bool, round func(t *testing.T, seed uint64)) {
	first := 1 + rand.Uint64N(1<<32)
	if *seedFlag != 0 {
		first, rounds = *seedFlag, 1
	}
	for k := range rounds {
		seed := first + uint64(k)
		t.Run(fmt.Sprintf("seed=%d", seed), func(sub *testing.T) {
			if parallel {
				sub.Parallel()
			}
			sub.Cleanup(func() {
				if sub.Failed() {
					sub.Logf("to repeat: go test ./cache -run '^%s$' -seed=%d", t.Name(), seed)
				}
			})
			round(sub, seed)
		})
	}
}
