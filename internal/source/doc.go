// Package source understands what is mounted: server:/export.
//
// It owns the syntax, and the way from a server's name to its addresses. It
// refuses addresses that can be no server's (unspecified, multicast, link-local
// without an interface) before anything is sent to them. It keeps no state, starts
// no goroutine and has no locks.
package source
