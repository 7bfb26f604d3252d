package iwarp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// termCode is layer, type and code of a Terminate message (RFC 5040 section
// 4.8) as in its first two bytes.
type termCode uint16

const (
	rdmapInvalidSTag termCode = 0x0100
	rdmapBounds      termCode = 0x0101
	rdmapAccess      termCode = 0x0102
	rdmapTOWrap      termCode = 0x0104
	rdmapVersion     termCode = 0x0205
	rdmapOpcode      termCode = 0x0206
	rdmapStream      termCode = 0x0207
	rdmapInvalidate  termCode = 0x0209

	ddpInvalidSTag     termCode = 0x1100
	ddpBounds          termCode = 0x1101
	ddpTOWrap          termCode = 0x1103
	ddpTaggedVersion   termCode = 0x1104
	ddpQueue           termCode = 0x1201
	ddpNoBuffer        termCode = 0x1202
	ddpMSN             termCode = 0x1203
	ddpOffset          termCode = 0x1204
	ddpTooLong         termCode = 0x1205
	ddpUntaggedVersion termCode = 0x1206

	mpaBadCRC      termCode = 0x2002
	mpaFraming     termCode = 0x2003
	mpaBadFrame    termCode = 0x2004
	mpaReadDepth   termCode = 0x2006
	mpaNoCommonRTR termCode = 0x2007
)

var termNames = map[termCode]string{
	0x0000:           "RDMAP: catastrophic error",
	rdmapInvalidSTag: "RDMAP: invalid STag",
	rdmapBounds:      "RDMAP: base or bounds violation",
	rdmapAccess:      "RDMAP: access rights violation",
	0x0103:           "RDMAP: STag not associated with the stream",
	rdmapTOWrap:      "RDMAP: tagged offset wraps",
	0x0109:           "RDMAP: STag cannot be invalidated",
	0x01ff:           "RDMAP: unspecified protection error",
	rdmapVersion:     "RDMAP: invalid version",
	rdmapOpcode:      "RDMAP: unexpected opcode",
	rdmapStream:      "RDMAP: catastrophic error, localized to the stream",
	0x0208:           "RDMAP: catastrophic error, global",
	rdmapInvalidate:  "RDMAP: STag cannot be invalidated",
	0x02ff:           "RDMAP: unspecified error",

	0x1000:             "DDP: catastrophic error",
	ddpInvalidSTag:     "DDP: invalid STag",
	ddpBounds:          "DDP: base or bounds violation",
	0x1102:             "DDP: STag not associated with the stream",
	ddpTOWrap:          "DDP: tagged offset wraps",
	ddpTaggedVersion:   "DDP: invalid version",
	ddpQueue:           "DDP: invalid queue number",
	ddpNoBuffer:        "DDP: no receive posted",
	ddpMSN:             "DDP: message sequence number out of range",
	ddpOffset:          "DDP: invalid message offset",
	ddpTooLong:         "DDP: message too long for the receive",
	ddpUntaggedVersion: "DDP: invalid version",

	0x2001:         "MPA: connection lost",
	mpaBadCRC:      "MPA: CRC error",
	mpaFraming:     "MPA: framing error",
	mpaBadFrame:    "MPA: bad request or reply frame",
	0x2005:         "MPA: catastrophic error",
	mpaReadDepth:   "MPA: insufficient read depth",
	mpaNoCommonRTR: "MPA: no common ready-to-receive message",
}

func (t termCode) String() string {
	if s, ok := termNames[t]; ok {
		return s
	}
	return fmt.Sprintf("layer %d, type %d, code %d", t>>12, t>>8&15, t&255)
}

// violation is what a peer did against the protocol; code goes into the
// Terminate message.
type violation struct {
	code termCode
	what string
}

func (v *violation) Error() string { return fmt.Sprintf("%s: %s", v.code, v.what) }

func violate(code termCode, format string, args ...any) error {
	return &violation{code, fmt.Sprintf(format, args...)}
}

// terminated is a Terminate message that the peer sent.
type terminated struct {
	code termCode
	// swapped: the peer packs the nibbles as Linux' siw does on little-endian
	// machines.
	swapped bool
}

func (t *terminated) Error() string { return fmt.Sprintf("peer terminated the stream: %s", t.code) }

var errShortTerminate = errors.New("peer terminated the stream without saying why")

// parseTerminate decodes a Terminate message's body. siw fills C bit fields,
// so that a little-endian machine swaps layer and type: what is unknown one way
// and known the other is taken the other way. It serves logs only.
func parseTerminate(b []byte) error {
	if len(b) < 4 {
		return errShortTerminate
	}
	code := termCode(binary.BigEndian.Uint16(b))
	swapped := code&0x0f00<<4 | code&0xf000>>4 | code&0x00ff
	_, known := termNames[code]
	_, knownSwapped := termNames[swapped]
	// The flag bits decide when both readings have a name: the
	// standard's are the three high ones of byte 2.
	if knownSwapped && (!known || b[2]&0xe0 == 0 && b[2]&0x07 != 0) {
		return &terminated{swapped, true}
	}
	return &terminated{code, false}
}

// appendTerminate encodes a whole FPDU with a Terminate message, without the
// optional copy of the headers at fault.
func appendTerminate(b []byte, code termCode, crc bool) []byte {
	start := len(b)
	h := header{length: untaggedSize - lengthField + 4, last: true, op: opTerminate, qn: queueTerminate, msn: 1}
	b = h.append(b)
	b = append(b, byte(code>>8), byte(code), 0, 0)
	return appendTrailer(b, h.length, crc32.Checksum(b[start:], castagnoli), crc)
}
