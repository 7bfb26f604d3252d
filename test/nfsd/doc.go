// Package nfsd is an NFS server that exports local directories over NFSv3 and
// MOUNT version 3 (RFC 1813), and over NFSv4.1 and 4.2 (RFC 8881, RFC 7862), by
// TCP and by RDMA: the embedded server of the demonstration, the tests and the
// benchmarks. Config.Versions says which; version 3 alone unless it does.
//
// It owns the programs: procedures, statuses, squashing of users, the duplicate
// request cache, the write verifier, and the faults that tests order. Package
// vfs below it has the files; the transports carry the calls to Handler. The
// MOUNT program and GETPORT of the port mapper are answered on the same port as
// NFS, so that a client can be told mountport= and port= alike.
//
// Exports with ACL have access control lists (NFSACL), which the kernel keeps, inherits and
// judges by where their file system has them.
//
// Locks (NLM version 4) are served on the TCP listeners and kept in memory, known by
// the client's address and svid. There is no queue of waiters and no callback.
//
// Version 4 is package v4's, over the same files; its state is package v4/state's,
// its callbacks package v4/back's. Here are the exports that they serve, users,
// the write verifier, and crashes, which lose sessions, open files and locks as the
// restart of a host does; Config.Grace says how long they may be reclaimed.
// Version 3 has delegations of version 4 recalled. Locks of the two versions do not
// see each other, nor does version 3 see share reservations.
//
// With AUTH_SYS a client's word for its user is taken: such an export is as open as the
// network it is listened on. With Kerberos (RPCSEC_GSS) the KDC's word is, and calls may be
// authenticated or encrypted. An export says which of them its files may be reached by;
// MOUNT, which answers that, and NLM are served by any, as Linux does. TCP listeners may
// offer TLS (RFC 9289, transport/rpctls), or demand it of NFS.
//
// # Durability
//
// What is answered as stable is on stable storage: data by fsync or fdatasync,
// names and attributes by fsync of file and directory unless the export is
// Async. The write verifier is random at each start and changes when an fsync
// fails. In lossy mode unstable writes stay in memory until COMMIT and Crash
// really loses them.
//
// A call that is not idempotent, sent again with the same XID from the same
// host, is answered from the cache; one that is still being carried out is
// waited for. With version 4 it is the session that does so.
//
// # Goroutines
//
// Each listener has one, runListener, and its transport's own; Crash ordered by
// a fault runs in runCrash. Close joins them all. vfs has a janitor per export.
//
// # Locks
//
// Server.life, held while listeners start and stop; then Server.mu, which guards
// the list of them. Server.crashMu is held for reading by writes and commits of
// lossy exports, for writing by Crash. The locks of the duplicate request cache,
// of the mount list, of the locks and of the known users are leaves. Server.replacing is
// taken by MNT, and by what leads clients of version 4 into an export.
package nfsd
