// Package iwarp is the pure-Go iWARP provider: MPA (RFC 5044, 6581), DDP
// (RFC 5041) and RDMAP (RFC 5040) over the operating system's TCP, as
// initiator and as responder. It needs no RDMA hardware and no privileges.
//
// It owns the sockets, the windows' keys and the framing. It does not support
// markers, which it rejects at set-up, nor atomics and immediate data. It does
// not trust a peer: each key, bound, access right, sequence number and length is
// checked before a byte is placed, and a violation ends the connection with a
// Terminate message and a *verbs.ConnError that names it.
//
// # Invariants
//
//   - A key (the STag) is random, valid on one connection, and bound to one
//     segment. Remote addresses count from a random base of each registered
//     arena: they reveal nothing about the process.
//   - Data of Writes, Reads and Sends moves between the socket and registered
//     memory by readv and writev, with no staging copy except for what was
//     read together with a header (at most rxBuffer bytes).
//   - Every system call that touches memory is non-blocking and, where a
//     window is the permission, made with memory.mu read-locked after checking
//     that the window is still bound. So revoking a window waits for one such
//     call at most, never for the peer. A peer that was in the middle
//     of a Write into, or a Read from, a window that is revoked loses the
//     connection, as with an adapter.
//   - With CRC on, an FPDU that is whole in the receive buffer is checked
//     before anything of it is placed. A larger one is placed as it comes in,
//     and the connection ends when its CRC turns out wrong: damage stays
//     inside the window that its header names.
//   - Requests are initiated in order. A Send posted after a Read does not wait
//     for the Read's data, as RFC 5040 section 5.5 has it, but completions
//     come back in the order of posting, so that of the Send comes later.
//   - LocalInvalidate takes effect when it is posted, if the window is bound by
//     then; its completion keeps its turn. A window that the peer is reading
//     from ends the connection when it is revoked, even if the peer has stopped
//     taking what it asked for.
//   - PostSend never waits for the peer: what the socket does not take at
//     once, runTransmit sends. ErrQueueFull is the only back-pressure.
//     A signaled request holds its place until Wait has returned it.
//   - There is no receiver-not-ready retry: a Send that meets no posted receive
//     ends the connection.
//   - The accepting side sends nothing before the first FPDU of the dialing
//     side has come in (RFC 5044 section 7.1.2); what is posted earlier waits.
//
// A peer that is gone is noticed after about a minute, by TCP's keep-alive and
// user timeout. A peer that has sent nothing since set-up is probed with
// zero-length Writes for a few seconds: see runTransmit.
//
// # Goroutines
//
// A connection has one: runTransmit, started when the connection is set up and
// joined by Close. It sends what is left when the socket was full and no poster
// is in a call, and owns the timer that probes a silent peer. The receive side
// runs in Wait on its caller's goroutine, which polls the socket between two messages before it sleeps (package spin). A listener has runAccept and, for each
// connection being set up (at most Backlog), one runHandshake; Close joins
// them all.
//
// # Locks
//
// Order, outermost first: rx.mu (held by Wait), tx.mu, rq.mu, memory.mu, cq.mu.
// No lock is held while waiting for a peer except rx.mu, which is what makes
// Wait exclusive; Close wakes its holder first.
package iwarp
