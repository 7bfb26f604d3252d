//go:build !race

package verbstest

// raceEnabled: tests move less data under the race detector.
const raceEnabled = false
