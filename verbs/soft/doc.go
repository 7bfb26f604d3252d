// Package soft has what the providers without an adapter share: the arenas that
// are registered with a device, and the remote addresses of their bytes.
//
// It owns no memory, starts no goroutine, and its one lock is a leaf.
package soft
