// Package verbs is the seam between RPC-over-RDMA and whatever moves the
// bytes: a device with a protection domain, connections with send and receive
// queues, memory regions and windows.
//
// It owns the vocabulary and nothing else: implementations (verbs/iwarp, …)
// import it, never the reverse, and callers see no difference between them
// but Caps.
//
// Invariants that every provider keeps and verbstest checks:
//
//   - Memory that may move is in a registered arena; no Go heap memory is
//     ever given to a device.
//   - A window is the only way for a peer to reach memory, unless the device
//     has none (Caps.RegionKeys), and it covers exactly the bytes it was bound
//     to. Once a window is invalid (by the
//     peer's Send with Invalidate, by a completed LocalInvalidate, or by the
//     connection's end) the peer can touch those bytes no more, not even
//     with a transfer that had already begun.
//   - Work requests of one queue are carried out in order; data of RDMA Write
//     requests is in place before a Send posted after them is received.
//   - Wait drives the receive side. One goroutine at a time calls it, not always
//     the same one; no completion is lost when its ctx ends. A provider never
//     calls back into its user.
//   - After Wait has returned an error, or Close has returned, the connection
//     touches no memory that was posted to it or bound on it.
package verbs
