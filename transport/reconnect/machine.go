package reconnect

import "fmt"

// state is what a slot's goroutine is doing.
type state uint8

const (
	idle    state = iota // waits to be wanted
	dialing              // connects
	up                   // watches its link
	closing              // closes it
	pausing              // waits before it may connect again
	stopped
	numStates
)

func (s state) String() string {
	return [...]string{"idle", "dialing", "up", "closing", "pausing", "stopped"}[s]
}

// event is what ended a state.
type event uint8

const (
	wanted event = iota // a call wants a link
	dialed              // there is a link
	failed              // there is none
	lost                // the link broke, or was condemned
	closed              // the link is gone, nothing of it is left
	rested              // the pause is over
	stop                // the Caller is being closed
	numEvents
)

func (e event) String() string {
	return [...]string{"wanted", "dialed", "failed", "lost", "closed", "rested", "stop"}[e]
}

// never marks a pair that cannot occur.
const never = numStates

// next is the transition table of a slot. A dial that is stopped fails; a link is
// closed before anything else happens.
var next = [numStates][numEvents]state{
	//         wanted   dialed failed   lost     closed   rested stop
	idle:    {dialing, never, never, never, never, never, stopped},
	dialing: {never, up, pausing, never, never, never, never},
	up:      {never, never, never, closing, never, never, closing},
	closing: {never, never, never, never, pausing, never, never},
	pausing: {never, never, never, never, never, idle, stopped},
	stopped: {never, never, never, never, never, never, never},
}

func (s state) after(e event) state {
	n := next[s][e]
	if n == never {
		panic(fmt.Sprintf("reconnect: event %v in state %v", e, s))
	}
	return n
}
