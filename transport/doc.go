// Package transport is the interface between NFS and the transports of its calls.
//
// It owns the vocabulary: Call, Cred, Payload, Fate, Caller on the requester's
// side, Request and Handler on the responder's, and Backchannel for calls from the
// responder. A codec marks payloads; a transport moves them. NFS code does not see
// keys, thresholds or segments, so that TCP and RDMA share all of it.
//
// Below Caller stands Link, one connection of some transport (transport/tcp,
// transport/rpcrdma), and between them transport/reconnect, which gives calls
// their transaction ids, reconnects, resends, and implements hard, soft, timeo and
// retrans.
//
// Memory: a Call's Send and Recv payloads are borrowed until Call returns. Once it
// has returned, whatever its error, no peer can access them.
package transport
