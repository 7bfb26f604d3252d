// Package verbstest holds providers to the contract of package verbs.
//
// It owns Run, the suite that every provider passes, and Faulty, a device that
// wraps another one and fails on demand, for the tests of what is built on
// verbs. It knows no provider: what it requires is in the doc comments of verbs,
// and all that differs is read from Caps.
//
// The suite keeps two rules of providers. The side that dialed sends first, as
// iWARP requires. And the suite never posts a receive after the Send: a Send that
// meets no receive, or too small a one, ends the connection, even if some
// providers retry a missing receive for a while.
//
// Each test ends with both devices, all regions and arenas closed, and with as
// many goroutines as it started with. Goroutines of the suite are joined by the
// test that starts them. There is one lock, of Faults, a leaf.
package verbstest
