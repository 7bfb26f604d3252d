package writeback

// Sending is what a file may send.
type Sending uint8

const (
	// Free sends whatever is ready.
	Free Sending = iota
	// Delayed sends nothing: the server wants the file's WRITEs later.
	Delayed
	// Probing sends one WRITE at a time.
	Probing
	sendings
)

// Commit is what became of the wish for a COMMIT.
type Commit uint8

const (
	// NoCommit: none is asked for.
	NoCommit Commit = iota
	// CommitWaiting: one is asked for, and will be sent.
	CommitWaiting
	// CommitSent: one is in flight.
	CommitSent
	commits
)

// Truncation is the barrier around a SETATTR of the size.
type Truncation uint8

const (
	// NoTruncation is how a file is most of the time.
	NoTruncation Truncation = iota
	// Draining waits for what was written before the truncation.
	Draining
	// Truncating: the SETATTR may be in flight.
	Truncating
	truncations
)

// State is that of a file.
type State struct {
	Sending    Sending
	Commit     Commit
	Truncation Truncation
}

// event is what happens to a file. Those that no state minds, like a tick, a
// read or a wish for fsync, are none.
type event uint8

const (
	written         event = iota // bytes come, or a direct write claims its place
	sent                         // a WRITE is sent
	answered                     // a WRITE has ended, well or not
	later                        // the server wants a WRITE later
	elapsed                      // the delay of the WRITEs is over
	commitAsked                  // someone wants a COMMIT
	commitSent                   // it is sent
	commitDropped                // it is not sent: nobody wants it, or nothing needs it
	commitResent                 // it is sent again: as another user, or later
	committed                    // it has ended, well or not
	truncateAsked                // someone wants to truncate
	drained                      // what was written before has been sent
	truncateDropped              // nobody wants to truncate any more
	truncated                    // the server has cut the file
	truncateEnded                // the SETATTR has ended, well or not
	abandoned                    // everything is dropped
	events
)

// next is the state that follows; no refuses the event.
type next = int8

const no next = -1

// row is, for one event, what follows each state. An event is refused if any of
// the three refuses it.
type row struct {
	sending    [sendings]next
	commit     [commits]next
	truncation [truncations]next
}

var (
	anySending    = [sendings]next{next(Free), next(Delayed), next(Probing)}
	anyCommit     = [commits]next{next(NoCommit), next(CommitWaiting), next(CommitSent)}
	anyTruncation = [truncations]next{next(NoTruncation), next(Draining), next(Truncating)}
	// Only before the SETATTR.
	notTruncating = [truncations]next{next(NoTruncation), next(Draining), no}
	notTruncated  = [truncations]next{next(NoTruncation), no, no}
)

// transitions is indexed by event. The columns are Free, Delayed, Probing;
// NoCommit, CommitWaiting, CommitSent; NoTruncation, Draining, Truncating.
var transitions = [events]row{
	written:  {anySending, anyCommit, notTruncated},
	sent:     {[...]next{next(Free), no, next(Probing)}, anyCommit, notTruncating},
	answered: {[...]next{next(Free), next(Free), next(Free)}, anyCommit, notTruncating},
	later:    {[...]next{next(Delayed), next(Delayed), next(Delayed)}, anyCommit, notTruncating},
	elapsed:  {[...]next{no, next(Probing), no}, anyCommit, notTruncating},

	commitAsked:   {anySending, [...]next{next(CommitWaiting), no, no}, notTruncating},
	commitSent:    {anySending, [...]next{no, next(CommitSent), no}, notTruncating},
	commitDropped: {anySending, [...]next{no, next(NoCommit), no}, notTruncating},
	commitResent:  {anySending, [...]next{no, no, next(CommitSent)}, notTruncating},
	committed:     {anySending, [...]next{no, no, next(NoCommit)}, notTruncating},

	truncateAsked:   {anySending, anyCommit, [...]next{next(Draining), no, no}},
	drained:         {[...]next{next(Free), no, no}, [...]next{next(NoCommit), no, no}, [...]next{no, next(Truncating), no}},
	truncateDropped: {anySending, anyCommit, [...]next{no, next(NoTruncation), no}},
	truncated:       {[...]next{next(Free), no, no}, [...]next{next(NoCommit), no, no}, [...]next{no, no, next(Truncating)}},
	truncateEnded:   {[...]next{next(Free), no, no}, [...]next{next(NoCommit), no, no}, [...]next{no, no, next(NoTruncation)}},

	abandoned: {[...]next{next(Free), next(Free), next(Free)}, anyCommit, anyTruncation},
}

// after is the state that follows s; ok is false if s refuses ev.
func (s State) after(ev event) (State, bool) {
	r := &transitions[ev]
	a, b, c := r.sending[s.Sending], r.commit[s.Commit], r.truncation[s.Truncation]
	if a|b|c < 0 {
		return s, false
	}
	return State{Sending(a), Commit(b), Truncation(c)}, true
}

// allows says that s does not refuse ev.
func (s State) allows(ev event) bool {
	_, ok := s.after(ev)
	return ok
}

// try takes ev into account unless the state refuses it.
func (f *File) try(ev event) bool {
	s, ok := f.state.after(ev)
	f.state = s
	return ok
}

// must is try of what can only be refused if the owner has made a mistake, as
// with a reply to a COMMIT that was never sent.
func (f *File) must(ev event) {
	if !f.try(ev) {
		panic("writeback: " + ev.String() + " in state " + f.state.String())
	}
}

var (
	sendingNames    = [sendings]string{"Free", "Delayed", "Probing"}
	commitNames     = [commits]string{"NoCommit", "CommitWaiting", "CommitSent"}
	truncationNames = [truncations]string{"NoTruncation", "Draining", "Truncating"}
	eventNames      = [events]string{"written", "sent", "answered", "later", "elapsed",
		"commitAsked", "commitSent", "commitDropped", "commitResent", "committed",
		"truncateAsked", "drained", "truncateDropped", "truncated", "truncateEnded", "abandoned"}
)

func (s State) String() string {
	return sendingNames[s.Sending] + "/" + commitNames[s.Commit] + "/" + truncationNames[s.Truncation]
}

func (ev event) String() string { return eventNames[ev] }
