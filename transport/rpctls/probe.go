package rpctls

import (
	"encoding/binary"
	"fmt"
	"io"
)

// flavorTLS is AUTH_TLS (RFC 9289 section 4.1).
const flavorTLS = 7

// Parts of RFC 5531 section 9 and of record marking, section 11.
const (
	rpcVersion   = 2
	msgCall      = 0
	msgReply     = 1
	msgAccepted  = 0
	msgDenied    = 1
	flavorNone   = 0
	lastFragment = 1 << 31
	nullWords    = 10
	nullBytes    = 4 * nullWords // of a NULL call without credentials
	maxAuthBody  = 400
	minReply     = 12
	// maxReply bounds a reply to NULL: an accepted one with a verifier, and the range of versions of a mismatch.
	maxReply = 24 + maxAuthBody + 8
)

// startTLS is the body of the verifier by which a server says that it has TLS.
const startTLS = "STARTTLS"

// appendNull appends a NULL call of a program as a record, with credentials of a flavor that has no body.
func appendNull(b []byte, xid, prog, vers, flavor uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, lastFragment|nullBytes)
	for _, v := range [nullWords]uint32{xid, msgCall, rpcVersion, prog, vers, 0, flavor, 0, flavorNone, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// isProbe reports whether a message is the probe, of whatever program, and its transaction id.
func isProbe(msg []byte) (xid uint32, is bool) {
	if len(msg) != nullBytes {
		return 0, false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(msg[4*i:]) }
	is = word(1) == msgCall && word(2) == rpcVersion && word(5) == 0 && word(6) == flavorTLS && word(7) == 0 && word(8) == flavorNone && word(9) == 0
	return word(0), is
}

// appendStart appends the reply of a server that has TLS, as a record.
func appendStart(b []byte, xid uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, lastFragment|32)
	for _, v := range [5]uint32{xid, msgReply, msgAccepted, flavorNone, uint32(len(startTLS))} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, startTLS...)
	return binary.BigEndian.AppendUint32(b, 0) // SUCCESS
}

// readReply reads the reply to a NULL call, and not a byte more: what follows it may belong to TLS.
func readReply(r io.Reader, xid uint32) (reply, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r, mark[:]); err != nil {
		return reply{}, err
	}
	m := binary.BigEndian.Uint32(mark[:])
	n := m &^ lastFragment
	if m&lastFragment == 0 || n < minReply || n > maxReply {
		return reply{}, fmt.Errorf("%w: record mark %#x", errNoReply, m)
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return reply{}, err
	}
	return parseReply(msg, xid)
}

// reply is what a reply to a NULL call says.
type reply struct {
	denied bool
	// starts: the verifier is that of a server that has TLS. The accept_stat does not matter (RFC 9289 section 4.1).
	starts bool
}

// errNoReply: what came is no reply to the call that was made.
var errNoReply = fmt.Errorf("no reply of an RPC server")

// parseReply takes a message apart, which begins as RFC 5531 section 9 has it.
func parseReply(msg []byte, xid uint32) (reply, error) {
	if len(msg) < minReply {
		return reply{}, fmt.Errorf("%w: %d bytes", errNoReply, len(msg))
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(msg[4*i:]) }
	if word(0) != xid || word(1) != msgReply {
		return reply{}, fmt.Errorf("%w: it begins %x", errNoReply, msg[:8])
	}
	switch stat := word(2); stat {
	case msgDenied:
		return reply{denied: true}, nil
	case msgAccepted:
	default:
		return reply{}, fmt.Errorf("%w: reply_stat %d", errNoReply, stat)
	}
	if len(msg) < 20 {
		return reply{}, fmt.Errorf("%w: %d bytes", errNoReply, len(msg))
	}
	flavor, n := word(3), word(4)
	if n > maxAuthBody || len(msg) < 20+int(n+3)&^3+4 {
		return reply{}, fmt.Errorf("%w: verifier of %d bytes in a message of %d", errNoReply, n, len(msg))
	}
	return reply{starts: flavor == flavorNone && string(msg[20:20+n]) == startTLS}, nil
}
