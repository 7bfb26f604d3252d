// Package back makes the calls that a server of NFSv4.1 and 4.2 owes its clients: CB_RECALL,
// CB_NOTIFY_LOCK and CB_RECALL_SLOT when package state says so, CB_GETATTR, CB_RECALL_ANY
// and CB_OFFLOAD when the server does (RFC 8881 sections 2.10.3.1 and 20, RFC 7862 section 16).
//
// It owns the slots of the back channels, and what happens when a call is not answered: the
// connection is given up as a back channel, and the Machine told so, which has recalled again
// what is due when the client binds another. It refuses to know what is recalled and why.
//
// # Invariants
//
//   - A slot carries one call at a time. Its sequence id goes on by one with each call that
//     the client has answered past CB_SEQUENCE.
//   - After a call without an answer, a CB_SEQUENCE alone under the same sequence id finds
//     out where the slot stands, before the slot is used again.
//
// # Goroutines and locks
//
// Tell starts a runTell for each callback, and Go runs what leads to one; Close ends and joins them. Caller.mu is a leaf.
package back
