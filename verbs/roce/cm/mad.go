package cm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MADSize is the length of every management datagram.
const MADSize = 256

const (
	headerSize = 24
	dataSize   = MADSize - headerSize

	baseVersion  = 1
	classCM      = 7
	classVersion = 2
	methodSend   = 3
)

// Attr says which message a datagram holds.
type Attr uint16

// The messages of the communication management class.
const (
	AttrREQ  Attr = 0x0010
	AttrMRA  Attr = 0x0011
	AttrREJ  Attr = 0x0012
	AttrREP  Attr = 0x0013
	AttrRTU  Attr = 0x0014
	AttrDREQ Attr = 0x0015
	AttrDREP Attr = 0x0016
)

func (a Attr) String() string {
	switch a {
	case AttrREQ:
		return "REQ"
	case AttrMRA:
		return "MRA"
	case AttrREJ:
		return "REJ"
	case AttrREP:
		return "REP"
	case AttrRTU:
		return "RTU"
	case AttrDREQ:
		return "DREQ"
	case AttrDREP:
		return "DREP"
	}
	return fmt.Sprintf("attribute %#04x", uint16(a))
}

// Header is what differs in the common header of our datagrams (IBTA 13.4.3).
type Header struct {
	// TID is the transaction: chosen by REQ and DREQ, echoed by the others.
	TID  uint64
	Attr Attr
}

var be = binary.BigEndian

// errMAD is the root of every error of the parsers.
var errMAD = errors.New("malformed connection management datagram")

// ParseHeader checks that b is one datagram of the communication management
// class and returns its header.
func ParseHeader(b []byte) (Header, error) {
	if len(b) != MADSize {
		return Header{}, fmt.Errorf("%w: %d bytes", errMAD, len(b))
	}
	if b[0] != baseVersion || b[1] != classCM || b[2] != classVersion || b[3] != methodSend {
		return Header{}, fmt.Errorf("%w: version %d, class %#x, class version %d, method %#x", errMAD, b[0], b[1], b[2], b[3])
	}
	return Header{TID: be.Uint64(b[8:]), Attr: Attr(be.Uint16(b[16:]))}, nil
}

// body is what follows the header of a datagram that must hold message a.
func body(b []byte, a Attr) ([]byte, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if h.Attr != a {
		return nil, fmt.Errorf("%w: %v, want %v", errMAD, h.Attr, a)
	}
	return b[headerSize:], nil
}

// appendMAD appends a datagram with an empty body, and returns that body to
// be filled in.
func appendMAD(b []byte, h Header) (mad, body []byte) {
	at := len(b)
	b = append(b, make([]byte, MADSize)...)
	m := b[at:]
	m[0], m[1], m[2], m[3] = baseVersion, classCM, classVersion, methodSend
	be.PutUint64(m[8:], h.TID)
	be.PutUint16(m[16:], uint16(h.Attr))
	return b, m[headerSize:]
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

// putPrivate fills a field of private data. The caller has checked the length.
func putPrivate(field, private []byte) {
	if len(private) > len(field) {
		panic(fmt.Sprintf("cm: %d bytes of private data for a field of %d", len(private), len(field)))
	}
	copy(field, private)
}
