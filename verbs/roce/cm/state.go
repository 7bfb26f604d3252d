package cm

import (
	"fmt"
	"time"
)

// state is where a connection stands (IBTA 12.9.5 and 12.9.6).
type state uint8

const (
	// none is in the table where an input is ignored.
	none state = iota
	// gone: forgotten.
	gone
	// reqSent: the active side has asked.
	reqSent
	// reqWait: the peer has the REQ and wants time.
	reqWait
	// reqRcvd: the passive side's consumer has to decide.
	reqRcvd
	// repSent: the passive side has granted.
	repSent
	// repWait: the peer has the REP and wants time.
	repWait
	// activeUp and passiveUp: established, by role.
	activeUp
	passiveUp
	// dreqSent: our own user has ended the connection.
	dreqSent
	// rejected: our consumer has refused, and says so again to duplicates.
	rejected
	// timewait: over, while packets of it may still be under way.
	timewait
	states
)

func (s state) String() string {
	return [states]string{"none", "gone", "reqSent", "reqWait", "reqRcvd", "repSent", "repWait",
		"activeUp", "passiveUp", "dreqSent", "rejected", "timewait"}[s]
}

// input is what can happen to a connection.
type input uint8

const (
	inREQ input = iota // a duplicate
	inMRA
	inREJ
	inREP
	inRTU
	inDREQ
	inDREP
	// inTimer: the deadline has passed and there are tries left; inExpired:
	// there are none.
	inTimer
	inExpired
	// inStale: the peer asks for a new connection with the same queue pair.
	inStale
	// The user's: the consumer's decisions, the end, and the first packet of
	// the peer's queue pair.
	inAccept
	inReject
	inClose
	inData
	inputs
)

func (i input) String() string {
	if i >= inputs {
		return fmt.Sprintf("input %d", uint8(i))
	}
	return [inputs]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP",
		"timer", "expired", "stale", "accept", "reject", "close", "data"}[i]
}

// stateTimeout is how long a state lasts without an input.
type stateTimeout struct {
	// first is the time to the first inTimer or inExpired; it doubles up to
	// longestPause. Zero is without end.
	first time.Duration
	// tries is how many inTimer there are before inExpired.
	tries int
}

// longestPause bounds how much later than the network a connection is set up.
const longestPause = time.Second

var stateTimeouts = [states]stateTimeout{
	reqSent: {250 * time.Millisecond, 15},
	// Until the peer wants more time than this; see more.
	reqWait: {0, 7},
	// The exponent of serviceTimeout, which is sent to a peer that asks again.
	reqRcvd: {time.Minute, 0},
	repSent: {250 * time.Millisecond, 13},
	repWait: {0, 6},
	// Linux holds back what a peer sends until it has the RTU, which it
	// would ask for only after four seconds: so it is sent three times.
	activeUp: {20 * time.Millisecond, 2},
	dreqSent: {250 * time.Millisecond, 4},
	// Longer than the pause after which Linux sends a REQ again.
	rejected: {10 * time.Second, 0},
	timewait: {2 * time.Second, 0},
}

// serviceTimeout is what an MRA of ours promises: 4.096 µs << 24, 68.7 s.
const serviceTimeout = 24

// longestWait bounds what an MRA can make this side wait.
const longestWait = 70 * time.Second

// pause is the time to the next timer after a number of tries.
func (p stateTimeout) pause(tries int) time.Duration {
	return min(p.first<<tries, longestPause+p.first)
}

// mraWait is how long an MRA asks to wait.
func mraWait(exponent uint8) time.Duration {
	return min(4096*time.Nanosecond<<exponent, longestWait)
}
