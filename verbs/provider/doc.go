// Package provider is what the providers of verbs are built from. Each has
// connections, listeners and registered arenas that must be closed before its
// device (Uses), a backlog of connection requests (Backlog), and the same rules
// for options and work requests (CheckOptions, CheckSend). Those without an
// adapter also keep the registered arenas and their remote addresses (Soft).
//
// It owns no memory, starts no goroutine, and its locks are leaves, but that
// Soft's is taken before that of Uses.
package provider
