// Package mounttable reads the kernel's mount table.
//
// It owns the syntax of /proc/PID/mountinfo and what is looked up in it: the mount
// at a directory, the mount that a path lies on, where a file system can be
// unmounted. It refuses to touch what is mounted: a system call on a mount point
// may never return.
//
// Sources and directories in the table were chosen by the user who mounted; package
// plain makes them fit to print. No state, no goroutines, no locks.
package mounttable
