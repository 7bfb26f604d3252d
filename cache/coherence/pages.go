package coherence

// Pages is what the kernel has of one file: pages, attributes, and the size
// that it cuts mappings and splices to. The zero value is Current.
//
// A doubt makes an invalidation necessary. The first caller that waits for it
// schedules it, and it covers every doubt until it starts. One runs at a time, and no
// second one without a new doubt: an invalidation makes the kernel ignore attributes
// that it is given meanwhile.
type Pages struct {
	doubts  uint32 // how often what the kernel has became older than the file
	started uint32 // doubts that the invalidation that started last covers
	cleared uint32 // doubts that completed invalidations cover
	run     run
	unseen  bool // no open has seen the last doubt

	clearGen uint64 // when the last invalidation completed; 0: there was none
	toldGen  uint64 // when the kernel asked for the attributes that it was last given
}

// run is how far the invalidation under way is.
type run uint8

const (
	none run = iota
	scheduled
	started
)

// PagesState is where a file stands with the kernel.
type PagesState uint8

const (
	// Current: the kernel has nothing that is older than the file.
	Current PagesState = iota
	// Doubtful: what the kernel has must be invalidated.
	Doubtful
	// Scheduled: an invalidation is about to start.
	Scheduled
	// Clearing: an invalidation runs that covers every doubt.
	Clearing
	// Overtaken: an invalidation runs, and a doubt came after it had started.
	Overtaken
)

var pagesStates = [...]string{"Current", "Doubtful", "Scheduled", "Clearing", "Overtaken"}

func (s PagesState) String() string { return pagesStates[s] }

// State is where the file stands.
func (p *Pages) State() PagesState {
	switch {
	case p.run == scheduled:
		return Scheduled
	case p.run == started && p.started == p.doubts:
		return Clearing
	case p.run == started:
		return Overtaken
	case p.cleared != p.doubts:
		return Doubtful
	}
	return Current
}

// Doubt says that what the kernel has is older than the file from now on. The
// caller has it invalidated in the background at the latest.
func (p *Pages) Doubt() {
	p.doubts++
	p.unseen = true
}

// Ticket is a moment in the history of a Pages.
type Ticket uint32

// Ticket is now: it is covered once every doubt until now is.
func (p *Pages) Ticket() Ticket { return Ticket(p.doubts) }

// Covered reports whether invalidations that have completed cover t.
func (p *Pages) Covered(t Ticket) bool { return int32(p.cleared-uint32(t)) >= 0 }

// Schedule reports whether the caller must start an invalidation: something is
// in doubt, and none is under way. Start, or Cancel if it cannot run, must follow.
func (p *Pages) Schedule() bool {
	if p.State() != Doubtful {
		return false
	}
	p.run = scheduled
	return true
}

// Cancel takes back a Schedule.
func (p *Pages) Cancel() { p.run = none }

// Start says that the kernel is about to be asked.
func (p *Pages) Start() { p.run, p.started = started, p.doubts }

// Done says that the kernel has dropped what it had when Start was called.
// gen is drawn now. Who waits for a ticket must look again.
func (p *Pages) Done(gen uint64) {
	p.run, p.cleared, p.clearGen = none, p.started, gen
}

// Told says that the kernel is given attributes, in reply to a request that it sent at
// gen or later.
func (p *Pages) Told(gen uint64) {
	if p.clearGen > 0 { // before the first invalidation any reply will do
		p.toldGen = max(p.toldGen, gen)
	}
}

// Sized reports whether the kernel has learned the size since the last
// invalidation. The reply to a request from before it does not count: the kernel
// ignores it.
func (p *Pages) Sized() bool { return p.toldGen >= p.clearGen }

// Open reports whether a new open may keep the kernel's pages: there was no doubt
// since the last open.
func (p *Pages) Open() (keep bool) {
	if !p.unseen {
		return true
	}
	p.unseen = false
	return false
}
