// Package nfs3 is nfsclient.Client for NFSv3 (RFC 1813): MOUNT and rpcbind to
// find the export, then one method a procedure over a transport.Caller.
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
// transmission succeeded. A Caller does not report whether it resent, and guessing
// would turn real errors into successes, so the errors are returned. Exclusive
// CREATE is safe: the server recognizes the verifier and answers OK.
//
// # Goroutines and locks
//
// The package starts no goroutine: every method runs on its caller's. There is
// no mutex; what changes after Mount are two atomic flags and the channel of
// free buffers.
package nfs3
