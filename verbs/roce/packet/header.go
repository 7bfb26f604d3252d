package packet

import (
	"encoding/binary"
	"errors"
)

const (
	// BTHSize is the base transport header's.
	BTHSize = 12
	// MaxHeader is the most that Append adds.
	MaxHeader = BTHSize + rethSize + immSize
	// DefaultPKey is the partition key of the whole fabric.
	DefaultPKey = 0xffff

	dethSize   = 8
	rethSize   = 16
	aethSize   = 4
	immSize    = 4
	iethSize   = 4
	atomicSize = 28
	origSize   = 8

	bitSolicited = 0x80
	bitMigrated  = 0x40
	maskPad      = 0x30
	maskVersion  = 0x0f
	bitAckReq    = 0x80
)

var (
	// ErrTruncated: the packet ends before its headers and pad do.
	ErrTruncated = errors.New("packet is cut short")
	// ErrOpcode: an opcode that the table does not have.
	ErrOpcode = errors.New("opcode not known")
	// ErrVersion: a transport header version other than 0.
	ErrVersion = errors.New("transport header version not known")
)

// Header is a base transport header and the extended headers of its opcode;
// those that the opcode has not are zero.
type Header struct {
	Op        Opcode
	Solicited bool
	AckReq    bool
	// PadCount is how many bytes 0 to 3 follow the payload.
	PadCount uint8
	PKey     uint16
	DestQP   uint32
	PSN      PSN
	RETH     RETH
	AETH     AETH
	// IETH is the key to invalidate.
	IETH uint32
	Imm  uint32
	DETH DETH
}

// RETH names the memory of a WRITE or READ; Len is that of the whole message.
type RETH struct {
	VA   uint64
	RKey uint32
	Len  uint32
}

// AETH answers requests.
type AETH struct {
	Syndrome uint8
	MSN      uint32
}

// DETH goes with a datagram.
type DETH struct {
	QKey  uint32
	SrcQP uint32
}

// Append appends the encoding of h. The migrated bit is set, as adapters want
// it of a connection without an alternate path.
func (h *Header) Append(b []byte) []byte {
	flags := h.PadCount<<4&maskPad | bitMigrated
	if h.Solicited {
		flags |= bitSolicited
	}
	var ack uint32
	if h.AckReq {
		ack = bitAckReq << 24
	}
	b = append(b, byte(h.Op), flags)
	b = binary.BigEndian.AppendUint16(b, h.PKey)
	b = binary.BigEndian.AppendUint32(b, h.DestQP&psnMask)
	b = binary.BigEndian.AppendUint32(b, ack|uint32(h.PSN&psnMask))
	l := layouts[h.Op]
	if l&hasDETH != 0 {
		b = binary.BigEndian.AppendUint32(b, h.DETH.QKey)
		b = binary.BigEndian.AppendUint32(b, h.DETH.SrcQP&psnMask)
	}
	if l&hasRETH != 0 {
		b = binary.BigEndian.AppendUint64(b, h.RETH.VA)
		b = binary.BigEndian.AppendUint32(b, h.RETH.RKey)
		b = binary.BigEndian.AppendUint32(b, h.RETH.Len)
	}
	if l&hasAETH != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(h.AETH.Syndrome)<<24|h.AETH.MSN&psnMask)
	}
	if l&hasImm != 0 {
		b = binary.BigEndian.AppendUint32(b, h.Imm)
	}
	if l&hasIETH != 0 {
		b = binary.BigEndian.AppendUint32(b, h.IETH)
	}
	return b
}

// Parse decodes a packet without its invariant CRC. payload is the part of b
// between the headers and the pad. Atomics are known by opcode only: their own
// header is skipped.
func (h *Header) Parse(b []byte) (payload []byte, err error) {
	if len(b) < BTHSize {
		return nil, ErrTruncated
	}
	if b[1]&maskVersion != 0 {
		return nil, ErrVersion
	}
	l := layouts[b[0]]
	if l == 0 {
		return nil, ErrOpcode
	}
	ack := binary.BigEndian.Uint32(b[8:])
	*h = Header{
		Op:        Opcode(b[0]),
		Solicited: b[1]&bitSolicited != 0,
		AckReq:    ack&(bitAckReq<<24) != 0,
		PadCount:  b[1] & maskPad >> 4,
		PKey:      binary.BigEndian.Uint16(b[2:]),
		DestQP:    binary.BigEndian.Uint32(b[4:]) & psnMask,
		PSN:       PSN(ack) & psnMask,
	}
	b = b[BTHSize:]
	if len(b) < l.size()+int(h.PadCount) {
		return nil, ErrTruncated
	}
	if l&hasDETH != 0 {
		h.DETH = DETH{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]) & psnMask}
		b = b[dethSize:]
	}
	if l&hasRETH != 0 {
		h.RETH = RETH{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
		b = b[rethSize:]
	}
	if l&hasAETH != 0 {
		v := binary.BigEndian.Uint32(b)
		h.AETH = AETH{uint8(v >> 24), v & psnMask}
		b = b[aethSize:]
	}
	if l&hasAtomic != 0 {
		b = b[l.atomicSize():]
	}
	if l&hasImm != 0 {
		h.Imm = binary.BigEndian.Uint32(b)
		b = b[immSize:]
	}
	if l&hasIETH != 0 {
		h.IETH = binary.BigEndian.Uint32(b)
		b = b[iethSize:]
	}
	return b[:len(b)-int(h.PadCount)], nil
}

// size is that of the extended headers.
func (l layout) size() int {
	n := 0
	for _, x := range [...]struct {
		bit  layout
		size int
	}{{hasDETH, dethSize}, {hasRETH, rethSize}, {hasAETH, aethSize}, {hasImm, immSize}, {hasIETH, iethSize}} {
		if l&x.bit != 0 {
			n += x.size
		}
	}
	if l&hasAtomic != 0 {
		n += l.atomicSize()
	}
	return n
}

func (l layout) atomicSize() int {
	if l&response != 0 {
		return origSize
	}
	return atomicSize
}
