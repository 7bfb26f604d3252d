package rc

import (
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/verbs/roce/packet"
)

// AETH syndromes (InfiniBand specification, volume 1, section 9.7.5).
const (
	synAckUnlimited = 0x1f // an acknowledgement that speaks of no credits
	synRNR          = 0x20
	synSequence     = 0x60
	synInvalid      = 0x61
	synAccess       = 0x62
	synOperation    = 0x63

	synKind     = 0xe0 // the bits that distinguish ACK, RNR NAK and NAK
	synRNRTimer = 0x1f
)

var (
	// ErrRetries: the peer acknowledges nothing any more.
	ErrRetries = errors.New("peer does not answer: retries exhausted")
	// ErrNotReady: the peer has posted no receive for too long.
	ErrNotReady = errors.New("peer has no receive posted: retries exhausted")
)

// Refused says that the peer ended the connection with a NAK.
type Refused struct{ Syndrome uint8 }

func (e *Refused) Error() string {
	switch e.Syndrome {
	case synInvalid:
		return "peer refused a request as invalid"
	case synAccess:
		return "peer refused access to its memory"
	case synOperation:
		return "peer failed to carry out a request"
	}
	return fmt.Sprintf("peer ended the connection with syndrome %#x", e.Syndrome)
}

// Violation says what the peer did that it must not.
type Violation struct {
	Op  packet.Opcode
	Why string
}

func (e *Violation) Error() string { return fmt.Sprintf("%v from peer: %s", e.Op, e.Why) }
