// Package docs tests what the documents say about the code. What a package says of
// itself is tested beside it: docs/protocol.md by transport/rpcrdma, docs/protocol-nfs.md by nfsclient/nfs4, docs/options.md
// by internal/options. It has no code of its own.
package docs
