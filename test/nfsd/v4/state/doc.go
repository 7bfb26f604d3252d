// Package state is what a server of NFSv4.1 and 4.2 remembers of its clients: client
// records, sessions with their slots and reply caches, leases, opens with share
// reservations, byte-range locks, delegations, and the grace period (RFC 8881 sections
// 2.10, 8, 9, 10 and 18).
//
// It owns the rules and their statuses. It refuses I/O, files and goroutines: time is
// what Config.Now says, files are known by their handles, and what the server owes to a
// client by callback is handed to Config.Callback. Expiry, the end of a grace period and
// the revocation of a delegation that is not returned are noticed at the next call that
// they matter to.
//
// # How a server uses it
//
// A COMPOUND that begins with SEQUENCE: Machine.Sequence. If the status is not OK, the
// COMPOUND ends there. If Call.Replay is not nil, it is the whole result, to be sent as it
// is. If Call.Uncached is true, the result is that of SEQUENCE and, as that of the second
// operation, ErrRetryUncachedRep. Else the operations are carried out, and the encoded
// result is given to Call.End; that must happen exactly once, whatever became of them.
//
// A COMPOUND without SEQUENCE is one of EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION,
// BIND_CONN_TO_SESSION and DESTROY_CLIENTID alone; the first four may stand in one with
// SEQUENCE too. That there are no others is the server's to check.
//
// Methods take the arguments of an operation as the codec parsed them, and fill in its
// results. A stateid in the arguments may be CurrentStateid only if the server has replaced
// it before: the current stateid is a matter of the COMPOUND.
//
// # Lock order
//
// Machine.mu guards everything in a Machine and all that hangs from it; it is a leaf.
// Config.Callback, Config.Released and Config.Ended are called without it, from the goroutine of the
// method that caused them, and may call the Machine.
package state
