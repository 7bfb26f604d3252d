// Package nfs4 is nfsclient.Client for NFSv4.1 and 4.2 (RFC 8881, RFC 7862): one method a compound,
// over a session; and nfsclient.Locker, nfsclient.Ranges and nfsclient.Xattrs, of which the last two
// need minor version 2.
//
// It owns the session, the state that the server keeps of openings and locks, and a small registered
// arena for the targets of symbolic links. It refuses to cache, to ask for delegations or layouts,
// and to trust its peer. There is no back channel: nothing is promised to the server that only a
// callback could ask back, and locks are waited for by asking again.
//
// An operation that the server answers with NFS4ERR_DELAY or GRACE, which means that it has done
// nothing yet, is retried with a growing delay until the context ends. WRITE and COMMIT are not: see
// nfsclient. Statuses that NFSv3 does not have are turned into those of nfsclient that say the same to
// a program, or into an errno; those of sessions and state stay inside.
//
// # State
//
// Each OpenFile and Create has an open-owner of its own, so that one opening never changes another's
// stateid, and files are opened by handle (CLAIM_FH): no name can be renamed in between. A call puts in
// the stateid at the moment of sending. Calls that make state run to their end on a goroutine of their
// own; if their caller gives up first, what they have made is given back.
//
// When the server has lost all state, after a restart, the session calls recover before other calls
// go on: each opening is reclaimed, and then each of its locks. What cannot be reclaimed is opened anew
// by who next uses it (revive), and so is what the server says to have revoked or expired. Locks are not
// taken anew: another client may have had them. Their owner is told through the Watcher.
//
// # Goroutines and locks
//
// finish starts a goroutine for a call that must not be left in between, tellLost and revive one to tell
// the Watcher, so that no turn is held meanwhile; Close joins them. Turns of one opening (openState.turn) and of one owner's locks
// (lockState.turn) are held over calls, in this order; recover, for which such calls wait, takes none.
// stateTable.mu is innermost, and nothing is called under it. watcher.mu is held while the Watcher is
// called.
package nfs4
