// Package session is everything of a mount below FUSE: from a source and options
// to a cache over the mounted export.
//
// It owns the order in which addresses and ways to a server are tried, the
// connection, over which of several addresses further ones go, the MOUNT protocol's part, the cache and its buffers, and their end.
// It refuses to know of FUSE, of directories to mount on and of daemons:
// internal/mount puts a session under a directory, and a Go program may use the
// cache as it is. Implementations are named by internal/providers.
//
// Errors say what failed, why, and what may help; Explain takes them apart.
//
// Invariants: what fails leaves nothing behind: no connection, no device, no buffer.
// A Session that was returned must be closed, exactly once, after the last use of
// its cache. Close reports data that was lost.
//
// Goroutines: while connecting, one runConnect for each way that is tried at the
// same time, joined before race returns; and runCheck, which asks for the server's lock
// manager, joined by Close. The cache and the caller have their own.
// Locks: paths.mu, never held while an address is dialed.
package session
