// Package rpcbind registers programs at the rpcbind of this host (RFC 1833, version
// 4), and lists what is registered there.
//
// It owns one connection for the length of Do, with record marking (RFC 5531 section
// 11). It refuses to ask other hosts for a port: that is nfsclient/nfs3, which needs
// versions 2 and 3 too. What rpcbind answers is bounded before it is read.
//
// No goroutines outlive Do, and there are no locks.
package rpcbind
