// Package nfsclient is what the cache needs of an NFS server, whatever the
// version of the protocol: the Client interface, its types, and the errors.
//
// It owns no connection and no state; nfsclient/nfs3 implements it. It refuses
// to cache: each method is at least one call to the server, and returns what
// the server said at that moment.
//
// All methods may be called from any goroutine. Payloads are borrowed until the
// method returns.
package nfsclient
