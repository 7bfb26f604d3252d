// Package oncrpc encodes and decodes the messages of ONC RPC version 2
// (RFC 5531), the same for every transport.
//
// It owns the call header, the reply header with all its ways of refusing, and
// the dispatch of a call to a transport.Handler. Credential and verifier of a
// call, and the protection of its arguments and results, are encoded and checked
// by its transport.Cred. Record marking and RDMA headers belong to the
// transports.
//
// It refuses to make up transaction ids, to recover from a handler's panic, and
// to serve calls of another flavor of authentication than AUTH_NONE and AUTH_SYS,
// but for those of RPCSEC_GSS that a handler which is a Guard admits.
//
// Everything a peer sends is checked before it is used: credentials and
// verifiers are at most 400 bytes (section 8.2), a machine name 255 bytes, and
// 16 groups.
//
// The package starts no goroutine and holds no state.
package oncrpc
