// Package nfsclient is what the cache needs of an NFS server, whatever the
// version of the protocol: the Client interface, its types, and the errors.
//
// It owns no connection and no state; nfsclient/nfs3 and nfsclient/nfs4 implement it. It refuses
// to cache: each method returns what the server says at that moment, which takes at least one call. Where
// the server has promised that it will not say anything else (a delegation), it takes none.
//
// All methods may be called from any goroutine. Payloads are borrowed until the
// method returns.
//
// # Who retries what
//
// Each is done in one place.
//
//   - A lost connection, or a reply that does not come: the transport sends the
//     call again, and the methods see nothing of it. A call that was executed
//     twice may report that a name exists, or does not.
//   - ErrJukebox, the server asks to try later: the Client, until ctx ends; but
//     for Write and Commit, whose caller may have data of other files to write
//     meanwhile, and gets the error.
//   - State that a server has lost: the Client gets it back. If it cannot, it
//     tells its Watcher, and calls that carry that state fail.
//   - READDIRPLUS that a server does not have: the Client reads names alone.
//   - An entry of a directory that does not fit in a reply: the Client makes more
//     room.
//   - Exclusive CREATE that a server does not have: the Client makes a guarded
//     one.
//   - A write or read that is shorter than what was asked for: the caller.
//   - A verifier that has changed: the caller writes its unstable data again.
//   - ErrBadCookie, ErrStale: the caller, which knows what led there.
package nfsclient
