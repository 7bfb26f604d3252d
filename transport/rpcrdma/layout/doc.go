// Package layout says, to a reader of an RPC message that has come, where those of its data items stand that are not in its
// stream: placed by RDMA Write, fetched by read chunks, or behind padding (xdr.Layout).
//
// It refuses items whose lengths or positions are not those of what has come. It has no goroutines and no locks.
package layout
