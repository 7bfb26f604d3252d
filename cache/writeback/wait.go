package writeback

import "time"

// Step is what a caller that waits for something does next.
type Step uint8

const (
	// Wait until Woken, and ask again.
	Wait Step = iota
	// AskCommit: call BeginCommit.
	AskCommit
	// Done: what the caller waits for is so.
	Done
)

// Drain has all writes up to target sent, and says whether they have been
// answered.
func (f *File) Drain(target uint64) Step {
	if f.dirty.before(target) || f.flight.before(target) {
		f.urgent = max(f.urgent, target)
		return Wait
	}
	return Done
}

// Sync has all writes up to target sent and committed, and says whether they are
// on stable storage, or have failed.
func (f *File) Sync(target uint64) Step {
	switch {
	case f.Drain(target) == Wait:
		return Wait
	case !f.unstable.before(target):
		return Done
	case !f.state.allows(commitAsked):
		return Wait
	}
	return AskCommit
}

// Pressure is how much memory is wanted.
type Pressure uint8

const (
	// Calm: only what is old is sent.
	Calm Pressure = iota
	// Short: everything is sent, and committed where that frees enough.
	Short
	// Starved: everything is also committed at once.
	Starved
)

// Tick makes ready what has waited long enough, or all under pressure. commit
// says that a COMMIT is worth its while: what is unstable is old and nothing more
// comes, or takes a quarter of the memory, or the memory is all taken.
func (f *File) Tick(now time.Time, p Pressure) (commit bool) {
	then := now.Add(-f.config.Delay)
	for _, e := range f.dirty {
		if p > Calm || e.born.Before(then) {
			e.ready = true
		}
	}
	if len(f.unstable) == 0 || !f.state.allows(commitAsked) {
		return false
	}
	switch unsent := f.Unsent(); {
	case p == Starved, !unsent && f.unstable[0].born.Before(then):
		return true
	case p == Short:
		return !unsent || f.unstable.size() > f.config.MaxDirty/4
	}
	return false
}
