// Package posix is one suite of file system behaviour that every mount must
// have, whatever the transport and server: go-fuse's posixtest, and cases that
// NFS clients are known to get wrong.
//
// It tests a directory on a mount through system calls only.
package posix
