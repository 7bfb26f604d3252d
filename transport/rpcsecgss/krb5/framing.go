package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/messages"
)

// mechanism is the DER encoding of the object identifier 1.2.840.113554.1.2.2 (RFC 4121
// section 4.1).
var mechanism = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// Token ids of context creation (RFC 4121 section 4.1).
const (
	idRequest = 0x0100
	idReply   = 0x0200
)

// appendFramed appends a token of context creation (RFC 2743 section 3.1).
func appendFramed(dst []byte, id uint16, msg []byte) []byte {
	dst = append(dst, 0x60)
	switch n := len(mechanism) + 2 + len(msg); {
	case n < 0x80:
		dst = append(dst, byte(n))
	case n < 0x100:
		dst = append(dst, 0x81, byte(n))
	case n < 0x10000:
		dst = append(dst, 0x82, byte(n>>8), byte(n))
	default:
		dst = append(dst, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	dst = append(dst, mechanism...)
	dst = binary.BigEndian.AppendUint16(dst, id)
	return append(dst, msg...)
}

var errFraming = errors.New("not a token of Kerberos 5")

// parseFramed returns id and message of a token of context creation.
func parseFramed(b []byte) (id uint16, msg []byte, err error) {
	if len(b) < 2 || b[0] != 0x60 {
		return 0, nil, errFraming
	}
	n, size := derLength(b[1:])
	if size == 0 {
		return 0, nil, errFraming
	}
	b = b[1+size:]
	if n != len(b) || !bytes.HasPrefix(b, mechanism) || len(b) < len(mechanism)+2 {
		return 0, nil, errFraming
	}
	b = b[len(mechanism):]
	return binary.BigEndian.Uint16(b), b[2:], nil
}

// parseRequest decodes a token with an AP-REQ. Nothing in it is authenticated yet.
func parseRequest(token []byte) (*messages.APReq, error) {
	id, msg, err := parseFramed(token)
	if err != nil {
		return nil, err
	}
	if id != idRequest {
		return nil, fmt.Errorf("token of id %#04x, want an AP-REQ", id)
	}
	req := new(messages.APReq)
	return req, req.Unmarshal(msg)
}
