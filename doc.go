// Package rdmafs opens an NFS export, over RDMA or TCP, as a file system of this
// program: without FUSE, without a mount point and without privileges. It also
// mounts one.
//
//	fsys, err := rdmafs.Open(ctx, "server:/export", &rdmafs.Options{Mount: "rdma=iwarp"})
//	...
//	data, err := fsys.ReadFile("dir/file")
//	...
//	err = fsys.Close(ctx)
//
// An FS is an [fs.FS] with everything that package io/fs knows of, and has the
// methods of [os.Root] for changing files. A File is an io.Reader, io.ReaderAt,
// io.Writer, io.WriterAt, io.Seeker and fs.ReadDirFile.
//
// # Contexts
//
// Every method is bounded by a context. [FS.WithContext] and [File.WithContext]
// return a view of the same file system or file whose methods end when its
// context does; without them there is no bound, and a server that is away is
// waited for as by a hard mount. A file is opened with the context of the FS
// that opened it. What io.Copy or encoding/json is given reads and writes
// within its context that way.
//
//	n, err := io.Copy(w, f.WithContext(ctx))
//
// A write or truncation whose context ends may still reach the server; later
// ones of the same file wait for it.
//
// # Names
//
// Names are those of io/fs: relative to the export's root, separated by slashes,
// without "." and ".." but for the root itself, which is ".". They need not be
// UTF-8. Symbolic links are followed within the export, 40 at most; a target
// that begins with a slash starts at the export's root, and ".." stays there.
// Of a name that is to be made, removed or renamed, or whose link is asked for
// (Lstat, Lchown, ReadLink), the last component is not followed; OpenFile follows
// it, but for O_CREATE with O_EXCL.
//
// # Errors
//
// Errors are *fs.PathError, or *os.LinkError for two names, and wrap what the
// server or this package answered as a [syscall.Errno]: errors.Is compares them
// with [fs.ErrNotExist], [fs.ErrExist], [fs.ErrPermission], or syscall.ENOSPC.
// What is used after Close fails with [fs.ErrClosed], and what its context
// ended with the error of that.
//
// # What is promised
//
// The same as of a mount: docs/semantics.md. When File.Sync or File.Close
// returns nil, every byte written through the file is on the server's stable
// storage; data written by others before they closed the file is read by who
// opens it afterwards. An error of a write in the background is returned by
// Write, Sync and Close. FS.Close writes what is not written yet, and its error
// says what was lost that no call has reported.
//
// # Permission
//
// The server decides. Calls carry the user and the groups of this process, or
// of Options.User, or of [FS.WithUser]. The umask of the process has no effect.
//
// # Goroutines and locks
//
// All methods may be called from any goroutine. Methods that move a file's
// position (Read, Write, Seek, ReadDir) take turns; ReadAt and WriteAt do not.
// The package starts no goroutine of its own; those of the layers below live
// until Close. A call in progress holds file.turn if it moves the position, and
// no other lock; export.mu is a leaf.
package rdmafs
