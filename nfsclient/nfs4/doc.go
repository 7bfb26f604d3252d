// Package nfs4 is nfsclient.Client for NFSv4.1 and 4.2 (RFC 8881, RFC 7862): one method a compound,
// over a session; and nfsclient.Locker, nfsclient.Ranges and nfsclient.Xattrs, of which the last two
// need minor version 2.
//
// It owns the session, the state that the server keeps of openings, locks and delegations, and a small registered
// arena for the targets of symbolic links. It refuses to cache more than what a delegation covers, to ask
// for write delegations or layouts, and to trust its peer. Without Config.Callbacks there is no back channel: nothing is promised
// to the server that only a callback could ask back, and locks are waited for by asking again.
//
// An operation that the server answers with NFS4ERR_DELAY or GRACE, which means that it has done
// nothing yet, is retried with a growing delay until the context ends. WRITE and COMMIT are not: see
// nfsclient. RESOURCE, which may never end, is tried eight times, within some 11 s. Statuses that
// NFSv3 does not have are turned into those of nfsclient that say the same to a program, or into an errno; those of sessions
// and state stay inside.
//
// In encrypted compounds nothing stands behind the data of WRITE and SETXATTR (Config.Private).
//
// # State
//
// Each OpenFile and Create has an open-owner of its own, so that one opening never changes another's
// stateid, and files are opened by handle (CLAIM_FH): no name can be renamed in between. A call puts in
// the stateid at the moment of sending. Calls that make state run to their end on a goroutine of their
// own, once they are sent; if their caller gives up first, what they have made is given back.
//
// A lock stateid belongs to the opening through which its owner locked first. With nothing locked any more the owner goes on through the
// opening that he uses then, under another lock-owner; with something locked the first is widened to permit what he asks for, and stays open
// at the server (linger) if it is closed while he has others.
//
// When the server has lost all state, after a restart, the session calls recover before other calls
// go on: each opening is reclaimed, and then each of its locks. What cannot be reclaimed, for want of a credential of its
// user too, is opened anew by who next uses it (revive), and so is what the server says to have revoked or expired. Locks are not
// taken anew: another client may have had them. Their owner is told through the Watcher.
//
// # Delegations
//
// With a back channel, an OPEN for reading leaves it to the server to give a read delegation (RFC 8881 section 10.4). While it is held,
// the lease lasts and the server can call back (session.Session.Leased), OpenFile for reading by the same user, CloseFile, and GetAttr by anybody make no call; such an opening
// carries the delegation's stateid. Before it is returned each of these is opened at the server, as of the
// delegation (CLAIM_DELEG_CUR_FH), and so is one before it takes a lock. It is returned
//
//   - when the server recalls it, after the Watcher was told. The callback is answered at once, the rest is done by a goroutine. A
//     recall that overtakes the answer to OPEN is kept until that comes, by the file's handle;
//   - before a change of ours to the file: SETATTR, LINK, extended attributes, an opening for writing. While one is under way, or open, none
//     is taken, and one that an OPEN brings that began earlier is given back;
//   - when more than maxDelegations are held, or the server asks for any: those used least recently;
//   - by Close.
//
// Our own REMOVE and RENAME do not say which file they change; after one, attributes are asked for once more. When the server has lost
// all state, the delegation of a file that is open is reclaimed with the opening, and the others are given up. One that was revoked is
// freed, its openings are made anew by who next uses them, and the Watcher is told.
//
// Who changes a file waits for the return of its delegation, and that for calls alone: for OPENs, whose turn others hold over
// calls only, and for the Watcher, at most half a lease. The recovery of a session waits for none of these.
//
// # Goroutines and locks
//
// Close joins all of them. runFinish carries out a call that must not be left in between. runReturn returns delegations, and
// giveBack one that a reclaimed opening brings and nobody keeps. runFree frees what the server has revoked, and stateids of no more use. runCancel ends a copy. runKilled, runRecalled
// and runTell, and one of revive, tell the Watcher what is lost, so that no turn is held meanwhile. Close itself starts runReturnLast
// and runClose, some of each.
//
// Turns of one opening (openState.turn) and of one owner's locks
// (lockState.turn) are held over calls, in this order; recover, for which such calls wait, takes none.
// stateTable.mu is innermost: no call is made under it, and no lock taken. watcher.mu is held while the Watcher is
// called. What the server calls back takes stateTable.mu alone, for a moment.
package nfs4
