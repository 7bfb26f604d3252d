// Package wire is the messages of NFSv3 and MOUNT version 3 (RFC 1813), those
// of NFSACL, which stands beside them, and what of the port mapper and rpcbind (RFC 1833) is needed to find them.
//
// It owns one argument and one result type per procedure, each with Append and
// Parse; what one writes the other reads, so that a client and a server can
// both use it. A result has the fields of both arms of its union: Status says
// which hold. Data that RFC 8267 lets a transport place directly is a Bulk.
//
// It refuses to interpret: statuses are passed on, handles are opaque, names
// may be anything. Parse checks bounds, enumerations and discriminants, and
// leaves the first fault in the Reader; whoever calls it asks r.Err or r.End.
// Bytes in a parsed Bulk are borrowed from the message, all else is copied.
//
// The package has no state and starts no goroutine.
package wire
