package rdmafs

import (
	"math"
	"sync/atomic"
)

// gate counts the calls that use something, and is shut when that is closed.
// The zero gate is open.
type gate struct{ n atomic.Int64 }

// shut is added to n of a gate that lets nobody in any more.
const shut = math.MinInt64

// enter reports whether the gate is open. leave must follow if it is.
func (g *gate) enter() bool {
	for {
		n := g.n.Load()
		if n < 0 {
			return false
		}
		if g.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave reports whether the gate is shut and nobody is left inside: exactly one
// caller learns that.
func (g *gate) leave() (last bool) { return g.n.Add(-1) == shut }

// close shuts the gate. It reports whether it was open. The caller has entered.
func (g *gate) close() bool {
	for {
		n := g.n.Load()
		if n < 0 {
			return false
		}
		if g.n.CompareAndSwap(n, n+shut) {
			return true
		}
	}
}
