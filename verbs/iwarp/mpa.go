package iwarp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MPA start-up frames (RFC 5044 section 7.1.1, RFC 6581 section 9).
const (
	mpaHeader     = 20
	mpaEnhanced   = 4
	mpaMaxPrivate = 512
	// maxPrivate is what a consumer may send: Linux' software iWARP takes
	// 256 bytes, of which 4 are the enhanced connection data.
	maxPrivate = 252

	mpaMarkers = 0x80
	mpaCRC     = 0x40
	mpaReject  = 0x20
	mpaS       = 0x10

	depthMask     = 0x3fff
	depthFlagHigh = 0x8000 // A in the IRD word, C in the ORD word
	depthFlagLow  = 0x4000 // B in the IRD word, D in the ORD word
	// depthAny says that the depth is not negotiated.
	depthAny = 0x3fff
)

const (
	mpaRequestKey = "MPA ID Req Frame"
	mpaReplyKey   = "MPA ID Rep Frame"
)

var errMPAKey = errors.New("peer does not speak MPA")

// mpaFrame is a Request or Reply.
type mpaFrame struct {
	reply                bool
	markers, crc, reject bool
	revision             uint8
	// enhanced: the fields below are present.
	enhanced bool
	ird, ord uint16
	// peerToPeer asks for a ready-to-receive message of one of the kinds.
	peerToPeer                 bool
	rtrSend, rtrWrite, rtrRead bool
	private                    []byte
}

// readyByRead reports whether the initiator of request f shows that it is ready
// by a zero-length Read: the kind of message left when it does not offer a Write.
func (f *mpaFrame) readyByRead() bool { return f.peerToPeer && f.rtrRead && !f.rtrWrite }

// appendMPA encodes f.
func appendMPA(b []byte, f *mpaFrame) []byte {
	if f.reply {
		b = append(b, mpaReplyKey...)
	} else {
		b = append(b, mpaRequestKey...)
	}
	var flags byte
	n := len(f.private)
	for _, x := range []struct {
		on  bool
		bit byte
	}{{f.markers, mpaMarkers}, {f.crc, mpaCRC}, {f.reject, mpaReject}, {f.enhanced, mpaS}} {
		if x.on {
			flags |= x.bit
		}
	}
	if f.enhanced {
		n += mpaEnhanced
	}
	b = append(b, flags, f.revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if f.enhanced {
		b = binary.BigEndian.AppendUint16(b, depthWord(f.ird, f.peerToPeer, f.rtrSend))
		b = binary.BigEndian.AppendUint16(b, depthWord(f.ord, f.rtrWrite, f.rtrRead))
	}
	return append(b, f.private...)
}

func depthWord(depth uint16, high, low bool) uint16 {
	depth &= depthMask
	if high {
		depth |= depthFlagHigh
	}
	if low {
		depth |= depthFlagLow
	}
	return depth
}

// parseMPAHeader decodes the fixed part and returns how many bytes follow.
func parseMPAHeader(b []byte, reply bool) (f mpaFrame, rest int, err error) {
	if len(b) < mpaHeader {
		return f, 0, fmt.Errorf("MPA frame of %d bytes", len(b))
	}
	key := mpaRequestKey
	if reply {
		key = mpaReplyKey
	}
	if string(b[:16]) != key {
		return f, 0, errMPAKey
	}
	f = mpaFrame{
		reply:    reply,
		markers:  b[16]&mpaMarkers != 0,
		crc:      b[16]&mpaCRC != 0,
		reject:   reply && b[16]&mpaReject != 0,
		revision: b[17],
	}
	// The bit is reserved before revision 2.
	f.enhanced = f.revision >= 2 && b[16]&mpaS != 0
	rest = int(binary.BigEndian.Uint16(b[18:]))
	if rest > mpaMaxPrivate {
		return f, 0, fmt.Errorf("MPA private data of %d bytes", rest)
	}
	if f.enhanced && rest < mpaEnhanced {
		return f, 0, errors.New("MPA frame without its enhanced connection data")
	}
	return f, rest, nil
}

// parseMPAPrivate decodes what follows the fixed part; the frame keeps a copy.
func (f *mpaFrame) parseMPAPrivate(b []byte) {
	if f.enhanced {
		i, o := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		f.ird, f.ord = i&depthMask, o&depthMask
		f.peerToPeer, f.rtrSend = i&depthFlagHigh != 0, i&depthFlagLow != 0
		f.rtrWrite, f.rtrRead = o&depthFlagHigh != 0, o&depthFlagLow != 0
		b = b[mpaEnhanced:]
	}
	if len(b) > 0 {
		f.private = append([]byte(nil), b...)
	}
}
