// Package verbstest holds providers to the contract of package verbs.
//
// It owns Run, the suite that every provider passes, and Faulty, a device that
// wraps another one and fails on demand, for the tests of what is built on
// verbs. It refuses to know any provider: what it asks for is in the doc
// comments of verbs, and all that differs is read from Caps.
//
// Two rules of providers show in the suite. The side that dialed sends
// first, as iWARP requires. And a Send that meets no receive, or too small a
// one, ends the connection, though a provider may try a missing receive again
// for a while: so the suite never posts the receive later.
//
// Each test ends with both devices, all regions and arenas closed, and with as
// many goroutines as it started with. Goroutines of the suite are joined by the
// test that starts them. There is one lock, of Faults, a leaf.
package verbstest
