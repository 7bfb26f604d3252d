// Package v4 answers the COMPOUNDs of NFSv4.1 and 4.2 (RFC 8881, RFC 7862, RFC 8276) with the
// files of package vfs and the state of package state.
//
// It owns the interpretation of a COMPOUND: the order in which operations may stand, the
// current and saved filehandle and stateid, the attributes, and the pseudo file system that
// leads from the root to the exports. It refuses to know the state: opens, locks, sessions and
// reply caches are package state's, which each operation asks before it touches a file.
// It refuses to know transports, listeners, and how users are squashed: package nfsd gives it
// that as Config.
//
// # The pseudo file system
//
// Each component of the path of an export is a directory of the pseudo file system, with fsid
// 0, and nothing can be changed there. An export stands in the place of the last component: its
// root has the fsid of the export, its own fileid, and as mounted_on_fileid that of the
// directory it stands for, which is what READDIR of the directory above shows, too. An export
// below another one is reached where the other has a directory of its path.
//
// # What is not there
//
// Access control lists and named attributes, layouts, security labels, READ_PLUS,
// WRITE_SAME, IO_ADVISE, and copies between servers. A file that was removed is gone for those
// who have it open, too: only its state can still be given back.
//
// # Goroutines and locks
//
// None: a COMPOUND is carried out by the goroutine that received it.
package v4
