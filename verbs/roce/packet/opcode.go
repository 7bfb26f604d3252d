package packet

import "fmt"

// Opcode is the first byte of a packet: the transport service and what the
// packet does.
type Opcode uint8

// Reliable Connected requests and responses, and the unreliable datagram that
// carries connection management.
const (
	SendFirst          Opcode = 0x00
	SendMiddle         Opcode = 0x01
	SendLast           Opcode = 0x02
	SendLastImm        Opcode = 0x03
	SendOnly           Opcode = 0x04
	SendOnlyImm        Opcode = 0x05
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLast          Opcode = 0x08
	WriteLastImm       Opcode = 0x09
	WriteOnly          Opcode = 0x0a
	WriteOnlyImm       Opcode = 0x0b
	ReadRequest        Opcode = 0x0c
	ReadResponseFirst  Opcode = 0x0d
	ReadResponseMiddle Opcode = 0x0e
	ReadResponseLast   Opcode = 0x0f
	ReadResponseOnly   Opcode = 0x10
	Acknowledge        Opcode = 0x11
	AtomicAcknowledge  Opcode = 0x12
	CompareSwap        Opcode = 0x13
	FetchAdd           Opcode = 0x14
	SendLastInv        Opcode = 0x16
	SendOnlyInv        Opcode = 0x17
	DatagramSend       Opcode = 0x64
)

// layout says which extended headers follow, in the order of the bits, and
// what kind of packet it is.
type layout uint16

const (
	hasDETH layout = 1 << iota
	hasRETH
	hasAtomic // AtomicETH, or the original value of an answer: skipped
	hasAETH
	hasImm
	hasIETH
	request
	response
	known
)

var layouts = [256]layout{
	SendFirst:          known | request,
	SendMiddle:         known | request,
	SendLast:           known | request,
	SendLastImm:        known | request | hasImm,
	SendOnly:           known | request,
	SendOnlyImm:        known | request | hasImm,
	WriteFirst:         known | request | hasRETH,
	WriteMiddle:        known | request,
	WriteLast:          known | request,
	WriteLastImm:       known | request | hasImm,
	WriteOnly:          known | request | hasRETH,
	WriteOnlyImm:       known | request | hasRETH | hasImm,
	ReadRequest:        known | request | hasRETH,
	ReadResponseFirst:  known | response | hasAETH,
	ReadResponseMiddle: known | response,
	ReadResponseLast:   known | response | hasAETH,
	ReadResponseOnly:   known | response | hasAETH,
	Acknowledge:        known | response | hasAETH,
	AtomicAcknowledge:  known | response | hasAETH | hasAtomic,
	CompareSwap:        known | request | hasAtomic,
	FetchAdd:           known | request | hasAtomic,
	SendLastInv:        known | request | hasIETH,
	SendOnlyInv:        known | request | hasIETH,
	DatagramSend:       known | hasDETH,
}

// IsRequest reports whether o is a packet for a connection's responder.
func (o Opcode) IsRequest() bool { return layouts[o]&request != 0 }

// IsResponse reports whether o is a packet for a connection's requester.
func (o Opcode) IsResponse() bool { return layouts[o]&response != 0 }

// IsReadResponse reports whether o is a packet with bytes that a READ asked for.
func (o Opcode) IsReadResponse() bool { return o >= ReadResponseFirst && o <= ReadResponseOnly }

var names = map[Opcode]string{
	SendFirst: "SEND First", SendMiddle: "SEND Middle", SendLast: "SEND Last",
	SendLastImm: "SEND Last with Immediate", SendOnly: "SEND Only", SendOnlyImm: "SEND Only with Immediate",
	WriteFirst: "WRITE First", WriteMiddle: "WRITE Middle", WriteLast: "WRITE Last",
	WriteLastImm: "WRITE Last with Immediate", WriteOnly: "WRITE Only", WriteOnlyImm: "WRITE Only with Immediate",
	ReadRequest: "READ Request", ReadResponseFirst: "READ Response First", ReadResponseMiddle: "READ Response Middle",
	ReadResponseLast: "READ Response Last", ReadResponseOnly: "READ Response Only",
	Acknowledge: "Acknowledge", AtomicAcknowledge: "ATOMIC Acknowledge",
	CompareSwap: "CmpSwap", FetchAdd: "FetchAdd",
	SendLastInv: "SEND Last with Invalidate", SendOnlyInv: "SEND Only with Invalidate",
	DatagramSend: "UD SEND Only",
}

func (o Opcode) String() string {
	if n, ok := names[o]; ok {
		return n
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}
