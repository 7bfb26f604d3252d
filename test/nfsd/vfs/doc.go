// Package vfs gives the files of one exported directory tree by handle, with
// the operations that an NFSv3 server needs of them.
//
// It owns the handles, the cache of open files behind them, the identity under
// which system calls are made, and the buffers of unstable writes in lossy
// mode. It refuses to know RPC and NFS statuses: errors are errnos,
// ErrBadHandle, ErrNotSync, or *SyncError.
//
// # Handles
//
// A handle names a file, not a path, and is good for as long as the file
// exists, across restarts of the server. There are two kinds. A kernel handle
// holds what name_to_handle_at gave; it is used where the process may call
// open_by_handle_at, the file system supports it, and a secret could be stored
// on the root of the tree (in a trusted extended attribute, which only root can
// read). An inode handle holds device, inode number and time of birth; an index
// from inode to (parent, name), kept up to date by the operations made here and
// by what lookups see, finds the path, and on a miss, as after a restart, the
// tree is walked, which fills the index on the way.
//
// Every handle ends in a keyed checksum over the whole, so one that was not
// made here is ErrBadHandle before it reaches a system call. An inode handle is
// resolved beneath the root with neither symbolic links nor mount points, so it
// cannot leave the tree even when forged. No operation follows a symbolic link.
// A mount point inside the tree is not crossed.
//
// # Invariants
//
//   - A Node has an O_PATH descriptor for as long as anyone refers to it, and
//     closes every descriptor when it leaves the cache and its last reference
//     is gone. Descriptors for I/O are opened at need and kept while in use.
//   - A file without names is ESTALE, though a descriptor still holds it.
//   - Attributes before and after a change are taken with no change through
//     this package in between.
//   - Of the bytes of a Write that is said to be stable, none is lost by a
//     crash; likewise names, unless Config.Async.
//
// # Goroutines
//
// New starts one, runJanitor, which closes idle descriptors; Close joins it.
//
// # Locks
//
// In this order: Tree.walkMu; Node.mu of a directory (of two, that with the
// lesser handle first); Node.mu of a file; Node.syncMu; Node.ioMu; shard.mu;
// index.mu. None is held while waiting for a client.
package vfs
