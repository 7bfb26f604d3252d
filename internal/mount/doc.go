// Package mount puts a session under a directory by FUSE, and takes it away.
//
// It owns what a mount needs of this machine besides the network (Check), the FUSE
// mount of a session (Attach), also one that another process has made (Given), both together for a program that serves a mount
// itself (At), and how a mount is undone, by mount(2)'s counterpart or fusermount3
// (Detach). It refuses to know of daemons, signals and control sockets.
//
// Invariants: what fails leaves neither a mount nor a session. Unmounting finds the
// mount by its device number: never what was mounted since in its place.
//
// A process that serves a mount may read and write files on it. It must not map them,
// and must have none open when it starts another process: the kernel may then have it
// wait for an answer of its own.
//
// Goroutines: those of fs, which end with the mount; At adds none. No locks.
package mount
