// Package ibv is the provider for RDMA adapters and for the kernel's software
// ones: libibverbs and librdmacm of rdma-core, in both roles, over InfiniBand,
// RoCE and iWARP.
//
// It owns what it opens of the libraries. They are loaded at run time, so the
// same program runs where they, or devices, are absent: Open then says what is
// missing and what to do. Without cgo, or elsewhere than on Linux, Open is all
// there is, and returns ErrNotBuilt.
//
// It refuses to choose a path: which adapter is used follows from the route to
// the peer, which the connection manager looks up at each Dial. A device may
// thus come to have several adapters; each gets a protection domain (domain.go)
// in which all arenas are registered when it is first used, and loses it when
// the last connection on it is closed and another adapter is in use. A connection
// on which the kind of keys would change fails once, so that its user sees new Caps.
//
// # Invariants
//
//   - No Go heap memory is ever registered. What crosses into C for a batch are
//     flat arrays without pointers, borrowed for the call: one crossing for a
//     batch of work requests, one for a batch of completions.
//   - Work requests are checked before they are posted: an adapter would end
//     the connection for what a UsageError says.
//   - Of the requests without Signaled, at least one in each quarter of the queue
//     is signaled all the same, to learn that those before are done (send.go).
//   - Completions of the send queue are returned in the order of posting, also
//     of adapters that complete a Send before the Read ahead of it.
//   - A connection ends in one place, teardown (conn.go), whatever the reason:
//     a failed work request, an event of the connection manager that the peer, the
//     device or the address is gone, an asynchronous event about its queue pair,
//     its port or its device, or Close. After it, the adapter touches nothing.
//   - A window (window.go) is a type-2 memory window. A work request that names
//     one is done before the window is deallocated. With Caps.RegionKeys there
//     are none: keys are those of the arenas' regions.
//   - A message that meets no receive ends the connection.
//   - Each connection and each request has an identifier with an event channel
//     of its own, so that it outlives the listener; and each adapter in use one,
//     so that librdmacm keeps it open.
//
// # What Linux' software adapters do (6.12)
//
// rxe checks a peer's access through a window against the window's rights, but
// against the bounds of the region below it, and crashes when a key is invalidated
// twice. siw has no windows, and sends wrong bytes when the peer Reads fewer than
// 64 that lie on both sides of a page's end. Their tests name these flaws.
//
// # Waiting
//
// Wait polls; when it finds nothing it requests an event and sleeps in the
// runtime's poller. If the sleep was shorter than what falling asleep and waking
// up costs, the next Wait first polls for that long, inside C.
//
// # Goroutines
//
// A connection has runEvents, from its establishment, which Close joins; a
// listener runRequests, which its Close joins; and each adapter in use one
// runAsync, however many devices use it, joined when the last of them releases it.
//
// # Locks
//
// Of a connection, outermost first: cq.waiting (held by Wait), post.mu, recv.mu,
// cq.mu, mu; the last is a leaf and not held over a call into C. Then
// adapter.mu, held while events are delivered to connections, before conn.mu;
// device.mu, held while memory is registered; adapters.mu, which may be taken
// with device.mu held. None is held while a peer is waited for, except
// cq.waiting, which makes Wait exclusive, and post.mu by Free: see there.
package ibv
