package torture

import (
	"hash/fnv"
	"math/rand/v2"
)

// random is the source for one purpose: the same for the same seed and words.
func random(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
