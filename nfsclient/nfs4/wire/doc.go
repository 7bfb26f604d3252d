// Package wire is the COMPOUND of NFSv4.1 and 4.2: its arguments, its results, and
// those of the operations that rdmafs uses (RFC 8881, RFC 7862, RFC 8276).
//
// It has the CB_COMPOUND by which a server calls its client, too (CBCompound), in the same manner.
//
// It owns one struct per operation, which holds the arguments and, after them, the
// results. What one side writes the other reads, so that a client and a server can
// both use it. A Compound is the list of operations with the outcome of each. Data
// that RFC 8267 lets a transport place directly is an xdr.Bulk.
//
// It refuses to interpret: statuses are passed on, handles and stateids are opaque,
// names may be anything. A parser checks bounds, enumerations and discriminants, that
// the results answer the operations asked, and that none is larger than its ReplyMax.
// The first fault stays in the Reader; whoever calls asks r.Err or r.End. Bytes in a
// parsed Bulk are borrowed from the message, all else is copied. Structs can be used
// again: parsing keeps the memory of slices and of strings that did not change, so what
// was taken out of an earlier message must have been copied.
//
// The package has no state and starts no goroutine.
package wire
