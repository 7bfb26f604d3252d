// Package roce is the pure-Go RoCEv2 provider: Reliable Connected queue pairs
// over the operating system's UDP, set up by the InfiniBand connection
// manager, as initiator and as responder. It needs no RDMA hardware and no
// privileges, but port 4791 of the address that it sends from.
//
// It owns what ties its parts together: packet (headers), rc (the queue pair as
// a machine), cm (the connection manager as a machine) and udp (sockets, the
// invariant CRC, routes). It has no atomics and immediate data. A packet
// reaches a queue pair only when it comes from the address of its peer; what it
// may do there, rc says.
//
// # Invariants
//
//   - A key is random, valid on one connection, and bound to one segment. Remote
//     addresses count from a random base of each registered arena.
//   - Payload is gathered from registered memory by the system call that sends
//     it, and copied once when it comes in: from the socket's batch to its place.
//   - After a loss, packets go without runs (see udp) for a while.
//   - Memory of a connection is touched with conn.mu held only. A call that
//     revokes a window, or ends the connection, waits for one batch at most,
//     never for the peer.
//   - PostSend never waits for the peer. ErrQueueFull is the only back-pressure.
//     A signaled request holds its place until its completion was taken.
//   - A Send that meets no receive is tried again for a short while, and then
//     ends the connection.
//   - Accept returns when the answer is sent. What is posted before the peer
//     confirms it waits.
//   - Where packets of the path MTU are lost and smaller ones are not, the
//     connection ends in seconds, and the next to that peer has half of it, for as
//     long as the device is open.
//   - A peer that is gone is noticed within about half a minute: a silent
//     connection is probed with a zero-length WRITE.
//
// # Who reads the socket
//
// A device has one port (socket) for each local address that it uses, and all
// connections of that address share it. A Wait that finds no reader becomes the
// reader: it receives the packets of all connections until its own connection has
// a completion, and wakes the Waits of the others for theirs. When it returns,
// another waiting Wait becomes the reader. When none waits, runRead reads, so that
// the peers' requests and acknowledgements are processed whatever the users do; it
// hands the role to the first Wait that waits, once it has woken it.
//
// A reader that is about to return a completion leaves the acknowledgement that
// goes with it to what its user posts next, or to its next Wait, or to the next
// reader: one system call and one wake-up of the peer fewer in each exchange.
//
// A socket that fails to receive ends all that use it, each with a *ConnError:
// connections, a Dial or Accept under way, listeners. The next Dial or Listen
// opens another.
//
// # Goroutines
//
// A port has two, from its opening to Device.Close, which joins them: runRead
// and runTimer, which sends again, gives up, and paces READ responses.
//
// # Locks
//
// Order, outermost first: conn.waiting (held by Wait), port.cmMu, conn.mu,
// port.mu, port.timerMu. pathMTUs.mu is a leaf. device.mu is held while a port is opened, and none but
// port.mu is taken with it held.
// No lock is held while waiting for a peer except conn.waiting, which is what
// makes Wait exclusive; Close wakes its holder first.
package roce
