package cm

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rdmafs/rdmafs/verbs"
)

// Reason is why a REJ was sent (IBTA 12.6.7.2).
type Reason uint16

// The reasons that this package gives, or distinguishes.
const (
	ReasonNoResources    Reason = 3
	ReasonTimeout        Reason = 4
	ReasonUnsupported    Reason = 5
	ReasonUnknown        Reason = 6
	ReasonNoService      Reason = 8
	ReasonTransport      Reason = 9
	ReasonStale          Reason = 10
	ReasonGID            Reason = 12
	ReasonResponderDepth Reason = 27
	ReasonConsumer       Reason = 28
)

var reasons = map[Reason]string{
	1:                    "it has no queue pair left",
	2:                    "it has no end-to-end context left",
	ReasonNoResources:    "it is out of resources",
	ReasonTimeout:        "it gave up waiting for an answer",
	ReasonUnsupported:    "it does not support the request",
	ReasonUnknown:        "it does not know the connection",
	7:                    "it does not know this instance of the connection",
	ReasonNoService:      "nobody listens on that port",
	ReasonTransport:      "it does not serve reliable connections there",
	ReasonStale:          "it still holds an old connection of this queue pair",
	ReasonGID:            "it does not know one of the addresses or has no route back",
	13:                   "it does not know the port's identifier",
	14:                   "it does not take the service level",
	15:                   "it does not take the traffic class",
	16:                   "it does not take the hop limit",
	17:                   "it does not take the packet rate",
	24:                   "it wants the connection at another port and manager",
	25:                   "it wants the connection at another port",
	26:                   "it does not take the path MTU",
	ReasonResponderDepth: "it needs more RDMA Reads at a time than are offered",
	ReasonConsumer:       "the service refused (or could not use the addresses)",
	29:                   "it does not take the RNR retry count",
	30:                   "it already knows the connection by that number",
	31:                   "it speaks another version of the connection manager",
}

func (r Reason) String() string {
	if s, ok := reasons[r]; ok {
		return fmt.Sprintf("%s (reason %d)", s, uint16(r))
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

var (
	// ErrNoAnswer: the peer did not answer, however often it was asked.
	ErrNoAnswer = errors.New("no answer from the RDMA connection manager; is the RoCE service running, and UDP port 4791 open?")
	// ErrStale: the peer has begun another connection with the same queue
	// pair, so that this one is dead.
	ErrStale = errors.New("the peer uses the queue pair for a new connection")
	// ErrPeerLeft: the peer ended the connection.
	ErrPeerLeft  = errors.New("the peer ended the connection")
	errUndecided = errors.New("the request was not accepted in time")
	// ErrFull: this side holds as many connections as it can.
	ErrFull = errors.New("too many connections")
)

// RejectError says that the peer sent a REJ.
type RejectError struct {
	Reason Reason
	// Private is the peer's private data, with the zeros that fill its field;
	// nil when there are only zeros.
	Private []byte
}

func (e *RejectError) Error() string { return "rejected: " + e.Reason.String() }

// DialError is err as an error of package verbs: a *verbs.RejectError when
// the peer, or its service, refuses; else a *verbs.ConnError, after which
// another try makes sense.
func DialError(to netip.AddrPort, err error) error {
	var re *RejectError
	if !errors.As(err, &re) || re.Reason == ReasonTimeout || re.Reason == ReasonStale {
		return &verbs.ConnError{Op: "dial", Remote: to, Err: err}
	}
	return &verbs.RejectError{Remote: to, Private: re.Private, Reason: re.Reason.String()}
}
