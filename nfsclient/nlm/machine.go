package nlm

// state is what is known of one lock on a range, of one owner.
type state uint8

const (
	// asking: the LOCK is outstanding.
	asking state = iota
	// waiting: somebody else has a conflicting lock. Nothing is queued at the
	// server, which is asked again.
	waiting
	// waitingGrace: the server grants nothing new for the time being.
	waitingGrace
	// abandoned: the LOCK is outstanding, and nobody wants it any more.
	abandoned
	// undoing: what the server may hold for us is being given back.
	undoing
	// undoLater: the same, once the server takes it.
	undoLater
	// held: ours.
	held
	// reclaiming: the server may have restarted, and a LOCK with reclaim is
	// outstanding.
	reclaiming
	// retaking: the server is not in its grace period, and an ordinary LOCK is
	// outstanding: it is granted if the lock is still ours, or is free.
	retaking
	// recovering: the server could not answer either; asked again later.
	recovering
	// The ends.
	free
	refused
	lost

	states
)

// event is what happens to a lock.
type event uint8

const (
	// The answers of the server.
	evGranted event = iota
	evDenied
	evGrace
	// evUnable: the server cannot keep locks now; it may later.
	evUnable
	// evRefused: it never will.
	evRefused
	// evSilence: no answer in time.
	evSilence
	// evPause: a pause is over.
	evPause
	// evGiveUp: the lock is not wanted any more.
	evGiveUp
	// evRestart: the server may have restarted.
	evRestart

	events
)

// action is what is to be done next.
type action uint8

const (
	actNone action = iota
	actLock
	actReclaim
	actUndo
	actPause
	// actListen: an answer is outstanding.
	actListen
)

// step is the new state after an event, and what to do.
type step struct {
	to  state
	act action
}

// table has what each event leads to. Without an entry nothing changes, and nothing
// is done.
var table = [states][events]*step{
	asking: {
		evGranted: {held, actNone},
		evDenied:  {waiting, actPause},
		evGrace:   {waitingGrace, actPause},
		evUnable:  {refused, actNone},
		evRefused: {refused, actNone},
		// A Linux server drops what conflicts with a delegation that it recalls.
		evSilence: {asking, actLock},
		evGiveUp:  {abandoned, actListen},
	},
	waiting: {
		evPause:  {asking, actLock},
		evGiveUp: {free, actNone},
	},
	waitingGrace: {
		evPause:  {asking, actLock},
		evGiveUp: {free, actNone},
	},
	abandoned: {
		evGranted: {undoing, actUndo},
		evDenied:  {free, actNone},
		evGrace:   {free, actNone},
		evUnable:  {free, actNone},
		evRefused: {free, actNone},
		// It may have been granted, and may yet be.
		evSilence: {undoing, actUndo},
	},
	undoing: {
		evGranted: {free, actNone},
		evDenied:  {free, actNone},
		evGrace:   {undoLater, actPause},
		evUnable:  {undoLater, actPause},
		evRefused: {free, actNone},
		evSilence: {undoing, actUndo},
	},
	undoLater: {
		evPause: {undoing, actUndo},
	},
	held: {
		evGiveUp:  {undoing, actUndo},
		evRestart: {reclaiming, actReclaim},
	},
	reclaiming: {
		evGranted: {held, actNone},
		evDenied:  {lost, actNone},
		// Outside of a grace period servers answer a reclaim so.
		evGrace:   {retaking, actLock},
		evUnable:  {recovering, actPause},
		evRefused: {lost, actNone},
		evSilence: {reclaiming, actReclaim},
		evRestart: {reclaiming, actReclaim},
	},
	retaking: {
		evGranted: {held, actNone},
		evDenied:  {lost, actNone},
		// It is in one after all, or has only begun.
		evGrace:   {recovering, actPause},
		evUnable:  {recovering, actPause},
		evRefused: {lost, actNone},
		evSilence: {retaking, actLock},
		evRestart: {reclaiming, actReclaim},
	},
	recovering: {
		evPause:   {reclaiming, actReclaim},
		evGiveUp:  {undoing, actUndo},
		evRestart: {reclaiming, actReclaim},
	},
}

// machine is one lock on its way. It has neither socket nor clock: who drives it
// does what next says, and tells it what came of that.
type machine struct {
	at state
	// unable counts the times in a row that the server could not keep locks.
	unable int
}

// maxUnable bounds how often a server that has restarted is asked again, a second
// apart, until it can keep locks: on Linux, until rpc.statd runs.
const maxUnable = 120

// next takes an event and returns what to do.
func (m *machine) next(e event) action {
	switch e {
	case evUnable:
		if m.unable++; m.unable > maxUnable {
			e = evRefused
		}
	case evGranted, evDenied, evGrace, evRefused:
		m.unable = 0
	}
	s := table[m.at][e]
	if s == nil {
		return actNone
	}
	m.at = s.to
	return s.act
}
