// Package cm is the InfiniBand connection manager of the RoCE provider: how
// two queue pairs find each other, agree, and part (IBTA volume 1, chapter 12,
// and the IP addressing annex A11).
//
// It owns the codec of the seven messages (REQ, MRA, REJ, REP, RTU, DREQ,
// DREP), one a file, and Manager, the state machine of both sides. Manager is
// data (transitions.go) and has neither sockets nor a clock: its inputs are
// datagrams, decisions of its user and the time, its outputs datagrams and
// events. The user sends the datagrams as UD packets to queue
// pair 1 and carries the events out.
//
// It does not have what NFS does not need: path migration (LAP), service resolution
// (SIDR), transports other than reliable connected, services outside of the
// TCP port space.
//
// Invariants:
//
//   - A connection is in one state, and every change of it is a row of the
//     table. Each ends in exactly one of Failed and Disconnected, or silently
//     when its own user closed it; until timewait is over its queue pair
//     number is Busy.
//   - A datagram changes a connection only when it comes from the address of
//     the connection's peer and names what only the peer was sent: the random
//     communication ID, and for DREQ the queue pair too.
//   - What third parties can make it hold is bounded: by each listener's backlog,
//     by maxConns, and by a deadline in every state but an established one.
//     It never sends more to them than it received.
//
// A Manager starts no goroutine and has no lock: its user calls it from one
// goroutine at a time.
package cm
