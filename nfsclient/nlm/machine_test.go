package nlm

import (
	"fmt"
	"strings"
	"testing"
)

var stateNames = [states]string{asking: "asking", waiting: "waiting", waitingGrace: "waitingGrace", abandoned: "abandoned",
	undoing: "undoing", undoLater: "undoLater", held: "held", reclaiming: "reclaiming", retaking: "retaking",
	recovering: "recovering", free: "free", refused: "refused", lost: "lost"}

var actionNames = map[action]string{actNone: "-", actLock: "lock", actReclaim: "reclaim", actUndo: "undo", actPause: "pause", actListen: "listen"}

// transitions is what must follow from each pair: the new state and the action,
// or a dot where the event changes nothing.
const transitions = `
state        granted      denied       grace            unable           refused     silence              pause                giveUp           restart
asking       held/-       waiting/pause waitingGrace/pause refused/-     refused/-   asking/lock          .                    abandoned/listen .
waiting      .            .            .                .                .           .                    asking/lock          free/-           .
waitingGrace .            .            .                .                .           .                    asking/lock          free/-           .
abandoned    undoing/undo free/-       free/-           free/-           free/-      undoing/undo         .                    .                .
undoing      free/-       free/-       undoLater/pause  undoLater/pause  free/-      undoing/undo         .                    .                .
undoLater    .            .            .                .                .           .                    undoing/undo         .                .
held         .            .            .                .                .           .                    .                    undoing/undo     reclaiming/reclaim
reclaiming   held/-       lost/-       retaking/lock    recovering/pause lost/-      reclaiming/reclaim   .                    .                reclaiming/reclaim
retaking     held/-       lost/-       recovering/pause recovering/pause lost/-      retaking/lock        .                    .                reclaiming/reclaim
recovering   .            .            .                .                .           .                    reclaiming/reclaim   undoing/undo     reclaiming/reclaim
free         .            .            .                .                .           .                    .                    .                .
refused      .            .            .                .                .           .                    .                    .                .
lost         .            .            .                .                .           .                    .                    .                .
`

func TestTransitions(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(transitions), "\n")[1:]
	if len(lines) != int(states) {
		t.Fatalf("%d states, want %d", len(lines), states)
	}
	for s, line := range lines {
		words := strings.Fields(line)
		if words[0] != stateNames[s] || len(words) != 1+int(events) {
			t.Fatalf("row %d: %q", s, words)
		}
		for e, want := range words[1:] {
			m := machine{at: state(s)}
			act := m.next(event(e))
			got := stateNames[m.at] + "/" + actionNames[act]
			if m.at == state(s) && act == actNone {
				got = "."
			}
			if got != want {
				t.Errorf("%s, event %d: %s, want %s", stateNames[s], e, got, want)
			}
		}
	}
}

// A LOCK that is outstanding when nobody wants it any more is never kept: whatever
// the order of events, the end is free, by an undo if it may have been granted.
func TestAbandonedIsNeverHeld(t *testing.T) {
	var walk func(m machine, path string, depth int)
	walk = func(m machine, path string, depth int) {
		if m.at == held || m.at == reclaiming || m.at == retaking || m.at == asking {
			t.Fatalf("%s leads to %s", path, stateNames[m.at])
		}
		if depth == 0 {
			return
		}
		for e := range events {
			next := m
			next.next(e)
			walk(next, path+fmt.Sprint(" ", e), depth-1)
		}
	}
	walk(machine{at: abandoned}, "abandoned:", 5)
}

// A server that restarted and cannot keep locks yet is asked again, but not for ever.
func TestUnableIsBounded(t *testing.T) {
	m := machine{at: held}
	act := m.next(evRestart)
	for n := 0; m.at != lost; n++ {
		if n > maxUnable {
			t.Fatal("asked for ever")
		}
		if act != actReclaim {
			t.Fatalf("action %s", actionNames[act])
		}
		if act = m.next(evUnable); act == actPause {
			act = m.next(evPause)
		}
	}
	m = machine{at: reclaiming, unable: maxUnable}
	m.next(evGranted)
	if m.at != held || m.unable != 0 {
		t.Errorf("%+v", m)
	}
}
