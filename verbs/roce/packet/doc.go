// Package packet is the codec of RoCEv2 transport headers: the base transport
// header and the extended headers that its opcode calls for, as they stand in
// a UDP payload, and the arithmetic of packet sequence numbers.
//
// It owns the layout and the table of opcodes. It refuses to know sockets, the
// invariant CRC (what it is given ends with the pad bytes), or what a packet
// means. Reserved fields are sent as zero and ignored when received; congestion
// marks are neither sent nor looked at.
//
// Invariants: Parse reads nothing beyond its argument, allocates nothing, and
// what it accepts Append reproduces. The package starts no goroutine.
package packet
