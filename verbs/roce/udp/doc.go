// Package udp carries RoCEv2 packets over an ordinary UDP socket: what stands
// between the UDP header and the invariant CRC goes in and comes out.
//
// It owns the socket on port 4791, the invariant CRC (IBTA annex A17.3.3),
// addresses, routes and batches of system calls. It does not look into packets, but
// for the one byte that the CRC does not cover, and does not know connections:
// packets of every sender are received, and the caller checks the addresses.
//
// # The CRC and the IP header
//
// The CRC covers parts of the IP header that a socket does not show.
//
//   - Sending over IPv4, the identification is 0: Linux leaves it so in
//     datagrams of a socket that is not connected and forbids fragments. Hence
//     one socket that is never connected.
//     In a run (see below) packets have 0, 1, 2 and so on.
//   - Receiving over IPv4, the peer's identification is unknown. The CRC is
//     linear, so it can be solved for: of the 32 bits 16 remain to find errors,
//     as many as TCP's checksum has, and all of them for a peer whose
//     identifications have proved regular (see ident).
//   - IPv6 has no identification.
//
// # Runs
//
// Packets of one size in a row, to one host, go to the kernel as one datagram,
// which is cut as late as can be: by the card, or just before it (UDP_SEGMENT).
// Linux counts up the identification from packet to packet, and asks cards to.
// One that does not would make each packet but the first of a run useless to
// receivers other than this one. So after a loss packets go one by one for a
// while, and longer if runs are no sooner back than the next is lost. Where the
// kernel refuses a run, the batch goes on without. A run needs a UDP checksum;
// cards make it, and the CRC leaves it out.
//
// In the same way the kernel hands out as one datagram what came as a run, or
// what it could put together (UDP_GRO).
//
// # The source port
//
// Peers send to port 4791 whatever the source port was, so a socket must be
// bound to it, and what it sends has it as its source, too. Other ports would
// spread connections over the links of a fabric, but need a second socket
// each; an ordinary Ethernet port has one link.
//
// # Invariants
//
//   - Recv gives out no packet with a bad CRC and none longer than MaxPacket.
//   - No allocation between packets; payloads are gathered from where they are.
//
// # Waiting
//
// A Recv waits with Go's poller for an epoll instance that watches the socket for
// input. Go would watch the socket for room to send, too, of which UDP sockets make
// an event of each datagram sent. A Send that meets a full socket waits in poll(2):
// one of all, the others wait for that one.
//
// The package starts no goroutine. Send may be called from any goroutine, with
// a Batch each; Recv from one at a time.
package udp
