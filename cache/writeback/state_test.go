package writeback

import (
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// allStates is every combination of the three states.
func allStates() (all []State) {
	for a := range sendings {
		for b := range commits {
			for c := range truncations {
				all = append(all, State{a, b, c})
			}
		}
	}
	return all
}

// legal is what the package promises of a state.
func (s State) legal() bool {
	return s.Truncation != Truncating || s.Sending == Free && s.Commit == NoCommit
}

// takes is, for each event, when it may come, in the words of the promises.
var takes = [events]func(State) bool{
	written:  func(s State) bool { return s.Truncation == NoTruncation },
	sent:     func(s State) bool { return s.Truncation != Truncating && s.Sending != Delayed },
	answered: func(s State) bool { return s.Truncation != Truncating },
	later:    func(s State) bool { return s.Truncation != Truncating },
	elapsed:  func(s State) bool { return s.Sending == Delayed && s.Truncation != Truncating },

	commitAsked:   func(s State) bool { return s.Commit == NoCommit && s.Truncation != Truncating },
	commitSent:    func(s State) bool { return s.Commit == CommitWaiting && s.Truncation != Truncating },
	commitDropped: func(s State) bool { return s.Commit == CommitWaiting && s.Truncation != Truncating },
	commitResent:  func(s State) bool { return s.Commit == CommitSent && s.Truncation != Truncating },
	committed:     func(s State) bool { return s.Commit == CommitSent && s.Truncation != Truncating },

	truncateAsked:   func(s State) bool { return s.Truncation == NoTruncation },
	drained:         func(s State) bool { return s == State{Free, NoCommit, Draining} },
	truncateDropped: func(s State) bool { return s.Truncation == Draining },
	truncated:       func(s State) bool { return s == State{Free, NoCommit, Truncating} },
	truncateEnded:   func(s State) bool { return s == State{Free, NoCommit, Truncating} },

	abandoned: func(State) bool { return true },
}

// TestEveryStateAndEvent: each pair either leads to a legal state or is refused
// and changes nothing, and is refused just when the promises say so.
func TestEveryStateAndEvent(t *testing.T) {
	pairs := 0
	for _, s := range allStates() {
		for ev := range events {
			pairs++
			to, ok := s.after(ev)
			switch {
			case ok != takes[ev](s):
				t.Errorf("%v in %v: taken %v, want %v", ev, s, ok, !ok)
			case !ok && to != s:
				t.Errorf("%v is refused in %v, which becomes %v", ev, s, to)
			case ok && s.legal() && !to.legal():
				t.Errorf("%v leads from %v to %v", ev, s, to)
			}
		}
	}
	if want := int(sendings) * int(commits) * int(truncations) * int(events); pairs != want {
		t.Errorf("%d pairs, want %d", pairs, want)
	}
}

// reach is what can follow s, with itself, without use of the event but.
func reach(s State, but event) map[State]bool {
	seen := map[State]bool{s: true}
	for todo := []State{s}; len(todo) > 0; todo = todo[1:] {
		for ev := range events {
			if to, ok := todo[0].after(ev); ok && ev != but && !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}

// TestStatesAreReached: all legal states follow the first one, no others do, and
// from each there is a way back that gives nothing up.
func TestStatesAreReached(t *testing.T) {
	from := reach(State{}, abandoned)
	for _, s := range allStates() {
		if from[s] != s.legal() {
			t.Errorf("%v is reached: %v", s, from[s])
		}
		if s.legal() && !reach(s, abandoned)[State{}] {
			t.Errorf("there is no way back from %v", s)
		}
	}
}

// into brings a file into state s. Unless it is Truncating, it has something
// dirty that is ready. With inFlight, a WRITE is in flight, too.
func into(t *testing.T, s State, inFlight bool) (*bench, *Extent) {
	b := newBench(t)
	var flying *Extent
	unstable := b.send(b.write(alice, 0, 100))
	b.f.Wrote(b.now, unstable, Written{How: nfsclient.Unstable})
	if s.Truncation != Truncating {
		if inFlight {
			flying = b.send(b.write(alice, 1*testBlock, 100))
		}
		if s.Sending != Free {
			e := b.send(b.write(alice, 2*testBlock, 100))
			if wait, due := b.f.Wrote(b.now, e, Written{Err: errLater}); wait != BackoffFirst || due != b.now.Add(wait) {
				t.Fatalf("delayed for %v until %v", wait, due)
			}
		} else {
			b.write(alice, 2*testBlock, 100)
			b.f.Tick(b.now, Short)
		}
		if s.Sending == Probing {
			b.f.Advance(b.now.Add(BackoffFirst))
		}
	}
	if s.Commit != NoCommit {
		b.f.BeginCommit()
	}
	if s.Commit == CommitSent {
		b.f.SendCommit()
	}
	if s.Truncation != NoTruncation {
		b.f.BeginTruncate()
	}
	if s.Truncation == Truncating {
		b.f.Truncate()
	}
	if got := b.f.State(); got != s {
		t.Fatalf("state %v, want %v", got, s)
	}
	return b, flying
}

// perform has ev happen to a file, and says whether it was taken: a refusal is
// an answer, or a panic where the owner is at fault.
func perform(b *bench, ev event, flying *Extent) (ok bool) {
	f := b.f
	defer func() {
		if r := recover(); r != nil {
			if _, meant := r.(string); !meant {
				panic(r)
			}
			ok = false
		}
	}()
	switch ev {
	case written:
		return b.write(alice, 5*testBlock, 100)
	case sent:
		k, _ := f.Next(0)
		f.Send(max(k, 0))
		return true
	case answered:
		f.Wrote(b.now, flying, Written{How: nfsclient.FileSync})
		return true
	case later:
		f.Wrote(b.now, flying, Written{Err: errLater})
		return true
	case elapsed:
		before := f.State()
		f.Advance(b.now.Add(time.Hour))
		return f.State() != before
	case commitAsked:
		_, ok := f.BeginCommit()
		return ok
	case commitSent:
		_, ok := f.SendCommit()
		return ok
	case commitDropped:
		f.DropCommit()
	case commitResent:
		return f.Committed(nfsclient.Verifier{}, errLater, false).Again
	case committed:
		f.Committed(nfsclient.Verifier{}, nil, false)
	case truncateAsked:
		return f.BeginTruncate()
	case drained:
		return f.Truncate() == Done
	case truncateDropped:
		f.DropTruncate()
	case truncated:
		f.Truncated(0)
	case truncateEnded:
		f.EndTruncate()
	case abandoned:
		f.Abandon()
	}
	return true
}

// TestFileFollowsTable: a file in each state takes each event, or refuses it, as
// the table says, and is in the state that follows.
func TestFileFollowsTable(t *testing.T) {
	for _, s := range allStates() {
		if !s.legal() {
			continue
		}
		for ev := range events {
			t.Run(fmt.Sprint(s, " ", ev), func(t *testing.T) {
				needs := ev == answered || ev == later
				b, flying := into(t, s, needs)
				if needs && flying == nil {
					return // nothing can be in flight
				}
				want, taken := s.after(ev)
				if ev == drained && taken {
					// The barrier opens when nothing is dirty any more.
					b.f.Wrote(b.now, b.f.Send(0), Written{How: nfsclient.FileSync})
				}
				if ok := perform(b, ev, flying); ok != taken {
					t.Errorf("taken: %v, want %v", ok, taken)
				}
				if got := b.f.State(); got != want {
					t.Errorf("state %v, want %v", got, want)
				}
			})
		}
	}
}
