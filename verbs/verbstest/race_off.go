//go:build !race

package verbstest

// RaceEnabled: tests move less data under the race detector, and count no allocations,
// as it makes some itself.
const RaceEnabled = false
