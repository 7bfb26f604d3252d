// Package transport is the seam between NFS and the ways its calls travel.
//
// It owns the vocabulary: Call, Cred, Payload, Fate, Caller on the requester's
// side, Request and Handler on the responder's. A codec marks payloads; a
// transport moves them. NFS code never sees keys, thresholds or segments, so
// TCP and RDMA share every line of it and every test.
//
// Below Caller stands Link, one connection of some transport (transport/tcp,
// transport/rpcrdma), and between them transport/reconnect, which gives
// calls their transaction ids, connects anew after a loss, resends, and
// carries out hard, soft, timeo and retrans.
//
// Memory: a Call's Send and Recv payloads are borrowed until Call returns, and
// when it has returned, with whatever error, no peer can touch them any more.
package transport
