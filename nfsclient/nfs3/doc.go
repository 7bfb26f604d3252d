// Package nfs3 is nfsclient.Client for NFSv3 (RFC 1813): MOUNT and rpcbind to
// find the export, then one method a procedure over a transport.Caller; and
// nfsclient.ACLs, by NFSACL on the same connection (acl.go).
//
// It owns the mount at the server, from MNT to UMNT, and a small registered arena
// for the targets of symbolic links (RFC 8267 lets them be placed directly). It
// refuses to cache, to retry what the transport gave up on, and to trust its peer:
// counts, names and cookies are checked before they are returned.
//
// A call that the server answers with NFS3ERR_JUKEBOX, which means that it has done
// nothing yet, is retried with a growing delay until the context ends. WRITE and
// COMMIT are not: see nfsclient.
//
// # Calls that were resent
//
// The transport resends a call under the same transaction id, and the server's
// duplicate request cache answers a call that was executed before. If the entry has
// been evicted, REMOVE, RMDIR and RENAME may fail with NFS3ERR_NOENT, and MKDIR,
// SYMLINK, MKNOD, LINK and guarded CREATE with NFS3ERR_EXIST, although the first
// transmission succeeded. Guessing would turn real errors into successes, so the errors
// are returned. A file that must not exist before is safe: with an exclusive CREATE the
// server recognizes the verifier and answers OK; a guarded one, which brings all
// attributes and so saves a SETATTR, has an access time of its own (marks), by which the
// file is known after a call that was resent (transport.Call.Resent).
//
// # A root that became stale
//
// Follower is a Client that asks mountd again when a call for the root fails with ESTALE, and
// makes the call once more for what it is given (follow.go). Handles of other files are passed on
// as they are.
//
// # Goroutines and locks
//
// The package starts no goroutine: every method runs on its caller's. There are
// two mutexes, of marks and of Follower, under which nothing is called; what else changes after Mount are
// atomic and the channel of
// free buffers.
package nfs3
