// Package rc is the Reliable Connected queue pair of RoCEv2 as a machine
// without sockets, goroutines, locks or a clock of its own: its inputs are work
// requests, packets and the time, its outputs the packets to send and the time of
// the next call.
//
// It owns the send and receive queues, completions, the windows that the peer
// may reach, packet sequence numbers, acknowledgement, retransmission and
// pacing. It has no atomics and immediate data, and does not trust the peer: a
// request is checked in the order of the InfiniBand specification, volume 1,
// section 9.7 (sequence, opcode, resources, lengths, key, bounds, access) and
// what breaks a rule is answered with a NAK that ends the connection, before
// any byte of it is placed.
//
// # Normal operation
//
// PostSend gives each request the sequence numbers that its packets take; Next
// walks over them as far as the window lets it. A READ takes one number for each
// packet of its answer, and is asked for in pieces that fit the window, so that
// no answer is larger than what this side can take at once. The peer's
// acknowledgements and READ responses move una, the oldest number not
// acknowledged, and whatever lies wholly before it is complete.
//
// The responder keeps its acknowledgements and READ responses in one queue, in
// the order of the requests, as an acknowledgement speaks for all before it.
// Acknowledgements that nothing stands between are merged. READ responses have
// no acknowledgement; those of a peer that asks for more than this side ever would
// are paced by time.
//
// # Recovery
//
// Whatever goes wrong, the requester goes back to una and sends again from
// there, a READ from the first byte that is missing. It does so on a NAK for a
// sequence error, when a response shows that a READ response before it was
// lost, and when nothing was acknowledged for a time that doubles with each
// try. Each loss shrinks the window, which grows again with acknowledgements: see window.
// A receiver that was not ready says how long to wait.
//
// A path may take less than the path MTU, and then only large packets are lost.
// Both roles look for that: the requester, when the same large packet is missing
// again and again, asks for a sign of life with a zero-length WRITE under a number
// that was used before; the responder sees the same READ asked for, or the same
// request missing. When it goes on, the queue pair fails with ErrTooLarge.
//
// The responder acknowledges duplicates again and remembers as many READs as
// the peer may have outstanding, to answer them again; what it answers is read
// from memory anew, through the window, if that is still bound.
//
// # Invariants
//
//   - una ≤ cur ≤ top ≤ end: acknowledged, next to send, sent, posted.
//   - No memory is touched but by PostSend, PostRecv (which only check it),
//     Receive, and by sending what Next returned, before the next call of any
//     method. A failed queue pair touches none.
//   - Binds and invalidations take effect when they are posted; their
//     completions keep their turn.
//
// The owner of a QP serializes all calls.
package rc
