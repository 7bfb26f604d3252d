package status

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPrintNFS4: a session, its slots, its lease, state and recoveries are a line each.
func TestPrintNFS4(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	lines := func(n *NFS4) (all []string) {
		var b bytes.Buffer
		if err := PrintState(&b, State{State: StateOK, NFS4: n}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	n := NFS4{Session: "0a0b", ClientID: "00ff", SlotsGranted: 64, SlotsUsable: 32, HighestSlot: -1, Connections: 2, Lease: 90, Renewed: at, Openings: 3, Locks: 4, Delegations: 5, LocalOpenings: 6}
	idle := []string{"session 0a0b, client 00ff, 2 connections, no back channel", "slots 64 granted, 32 usable, 0 in use, 0 calls wait for one",
		"lease 90 s, renewed 2026-03-04 05:06:07", "state 3 openings, 4 locks, 5 delegations (6 openings under them)", "recoveries none"}
	check := func(got, want []string) {
		t.Helper()
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("no line %q in %q", w, got)
			}
		}
	}
	check(lines(&n), idle)
	n.SlotsInUse, n.HighestSlot, n.CallsWaiting, n.BackChannel = 32, 31, 5, true
	n.Recoveries, n.LastRecovery = 2, &Recovery{Why: "BADSESSION", Began: at}
	check(lines(&n), []string{"session 0a0b, client 00ff, 2 connections, back channel", "slots 64 granted, 32 usable, 32 in use (highest 31), 5 calls wait for one",
		"recoveries 2, one under way since 2026-03-04 05:06:07: BADSESSION"})
	n.LastRecovery.Ended = at.Add(1500 * time.Millisecond)
	check(lines(&n), []string{"recoveries 2, the last at 2026-03-04 05:06:07, within 1.5s: BADSESSION"})
	if got := lines(nil); slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "session") }) {
		t.Errorf("without a session: %q", got)
	}
}

// TestServerWords: bytes that are no text are shown as hexadecimal, and not more of them than fit.
func TestServerWords(t *testing.T) {
	for in, want := range map[string]string{"server": "server", "a\x00b": "610062", "\xff": "ff", strings.Repeat("y", 500): strings.Repeat("y", 128)} {
		if got := words(in); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}
