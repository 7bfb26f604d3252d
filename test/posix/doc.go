// Package posix is one suite of file system behaviour that every mount must
// show, whatever the transport and server: go-fuse's posixtest, and what an
// NFS client gets wrong when it gets something wrong.
//
// It tests a directory on a mount through system calls only.
package posix
