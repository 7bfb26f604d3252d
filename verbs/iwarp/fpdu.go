package iwarp

import (
	"encoding/binary"
	"hash/crc32"
)

// RDMAP opcodes (RFC 5040 section 4.1).
const (
	opWrite = iota
	opReadRequest
	opReadResponse
	opSend
	opSendInvalidate
	opSendSolicited
	opSendSolicitedInvalidate
	opTerminate
)

// DDP queue numbers of untagged messages.
const (
	queueSend = iota
	queueRead
	queueTerminate
)

// The control word that follows the length (RFC 5041 section 4.1, RFC 5040
// section 4.1).
const (
	ctrlTagged   = 0x8000
	ctrlLast     = 0x4000
	ctrlDDP      = 0x0300
	ctrlDDP1     = 0x0100
	ctrlRDMAP    = 0x00c0
	ctrlRDMAP1   = 0x0040
	ctrlOpcode   = 0x000f
	lengthField  = 2
	taggedSize   = 16 // with the length
	untaggedSize = 20
	readReqBody  = 28
	crcSize      = 4
	// maxTrailer is padding and CRC.
	maxTrailer = 3 + crcSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what precedes the payload of an FPDU. Of tagged and untagged
// fields only one set counts.
type header struct {
	length       int // of the ULPDU: neither itself, nor padding and CRC
	tagged, last bool
	op           uint8

	stag uint32
	to   uint64

	inv         uint32 // the key to invalidate
	qn, msn, mo uint32
}

func (h *header) size() int {
	if h.tagged {
		return taggedSize
	}
	return untaggedSize
}

func (h *header) payload() int { return h.length + lengthField - h.size() }

// trailer is the size of padding and CRC.
func (h *header) trailer() int { return padding(h.length+lengthField) + crcSize }

func padding(n int) int { return -n & 3 }

// parseHeader decodes a header. n is its size, or 0 when b is too short to
// tell; a *violation says what is wrong with it.
func parseHeader(b []byte) (h header, n int, err error) {
	if len(b) < 4 {
		return h, 0, nil
	}
	ctrl := binary.BigEndian.Uint16(b[2:])
	h.length = int(binary.BigEndian.Uint16(b))
	h.tagged, h.last, h.op = ctrl&ctrlTagged != 0, ctrl&ctrlLast != 0, uint8(ctrl&ctrlOpcode)
	n = h.size()
	switch {
	case ctrl&ctrlDDP != ctrlDDP1 && h.tagged:
		return h, n, violate(ddpTaggedVersion, "DDP version %d", ctrl&ctrlDDP>>8)
	case ctrl&ctrlDDP != ctrlDDP1:
		return h, n, violate(ddpUntaggedVersion, "DDP version %d", ctrl&ctrlDDP>>8)
	case ctrl&ctrlRDMAP != ctrlRDMAP1:
		return h, n, violate(rdmapVersion, "RDMAP version %d", ctrl&ctrlRDMAP>>6)
	case h.op > opTerminate, h.tagged != (h.op == opWrite || h.op == opReadResponse):
		return h, n, violate(rdmapOpcode, "control word %#04x", ctrl)
	case h.length+lengthField < n:
		return h, n, violate(mpaFraming, "FPDU of %d bytes", h.length)
	}
	if len(b) < n {
		return h, 0, nil
	}
	if h.tagged {
		h.stag = binary.BigEndian.Uint32(b[4:])
		h.to = binary.BigEndian.Uint64(b[8:])
		return h, n, nil
	}
	h.inv = binary.BigEndian.Uint32(b[4:])
	h.qn = binary.BigEndian.Uint32(b[8:])
	h.msn = binary.BigEndian.Uint32(b[12:])
	h.mo = binary.BigEndian.Uint32(b[16:])
	return h, n, nil
}

// append encodes h.
func (h *header) append(b []byte) []byte {
	ctrl := uint16(ctrlDDP1 | ctrlRDMAP1 | uint16(h.op))
	if h.tagged {
		ctrl |= ctrlTagged
	}
	if h.last {
		ctrl |= ctrlLast
	}
	b = binary.BigEndian.AppendUint16(b, uint16(h.length))
	b = binary.BigEndian.AppendUint16(b, ctrl)
	if h.tagged {
		b = binary.BigEndian.AppendUint32(b, h.stag)
		return binary.BigEndian.AppendUint64(b, h.to)
	}
	b = binary.BigEndian.AppendUint32(b, h.inv)
	b = binary.BigEndian.AppendUint32(b, h.qn)
	b = binary.BigEndian.AppendUint32(b, h.msn)
	return binary.BigEndian.AppendUint32(b, h.mo)
}

// appendTrailer closes an FPDU whose ULPDU has length bytes; crc covers what
// precedes. Without CRC the field is there and zero.
func appendTrailer(b []byte, length int, crc uint32, on bool) []byte {
	for range padding(length + lengthField) {
		b = append(b, 0)
		crc = crc32.Update(crc, castagnoli, b[len(b)-1:])
	}
	if !on {
		crc = 0
	}
	return binary.LittleEndian.AppendUint32(b, crc)
}

// readRequest is the body of a Read Request (RFC 5040 section 4.4).
type readRequest struct {
	sinkSTag uint32
	sinkTO   uint64
	length   uint32
	srcSTag  uint32
	srcTO    uint64
}

func (r *readRequest) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.sinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.sinkTO)
	b = binary.BigEndian.AppendUint32(b, r.length)
	b = binary.BigEndian.AppendUint32(b, r.srcSTag)
	return binary.BigEndian.AppendUint64(b, r.srcTO)
}

// parseReadRequest decodes a body; the caller checked its size.
func parseReadRequest(b []byte) readRequest {
	_ = b[readReqBody-1]
	return readRequest{
		sinkSTag: binary.BigEndian.Uint32(b),
		sinkTO:   binary.BigEndian.Uint64(b[4:]),
		length:   binary.BigEndian.Uint32(b[12:]),
		srcSTag:  binary.BigEndian.Uint32(b[16:]),
		srcTO:    binary.BigEndian.Uint64(b[20:]),
	}
}
