package wire

import (
	"bytes"
	"encoding/binary"
)

// Inline thresholds, in bytes (RFC 8166 section 3.3.2, RFC 8797 section 4).
const (
	DefaultInline = 1024
	MinInline     = 1024
	MaxInline     = 256 * 1024

	// DefaultInline2 is what senders assume in version 2, and the least that receivers support (the draft,
	// section 3.3).
	DefaultInline2 = 4096
)

// PrivateData is the connection private message of RFC 8797 section 4.
type PrivateData struct {
	// RemoteInvalidate is the R bit: the sender supports remote invalidation.
	RemoteInvalidate bool
	// SendSize and RecvSize are the sender's buffer sizes in bytes, multiples
	// of 1024 from 1024 to 256 KiB.
	SendSize, RecvSize int
}

var privateMagic = binary.BigEndian.AppendUint32(nil, 0xf6ab0e18)

// Append encodes p at the end of b. Sizes are rounded down to whole KiB and
// brought within their range.
func (p PrivateData) Append(b []byte) []byte {
	var flags byte
	if p.RemoteInvalidate {
		flags = 1
	}
	size := func(n int) byte { return byte(min(max(n, MinInline), MaxInline)/1024 - 1) }
	return append(append(b, privateMagic...), 1, flags, size(p.SendSize), size(p.RecvSize))
}

// ParsePrivateData finds the message in a peer's private data, at any offset
// (RFC 8797 section 4.1.1: other headers may stand before it). ok is false, and
// p holds the defaults that then apply, when it is not there or of a version
// we do not know.
func ParsePrivateData(b []byte) (p PrivateData, ok bool) {
	p = PrivateData{SendSize: DefaultInline, RecvSize: DefaultInline}
	for i := bytes.Index(b, privateMagic); i >= 0; {
		m := b[i:]
		if len(m) >= 8 && m[4] == 1 {
			return PrivateData{
				RemoteInvalidate: m[5]&1 != 0,
				SendSize:         (int(m[6]) + 1) * 1024,
				RecvSize:         (int(m[7]) + 1) * 1024,
			}, true
		}
		next := bytes.Index(b[i+1:], privateMagic)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return p, false
}
