package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// shown is how many tests are named, and shownFrom how long each of them has taken, in seconds.
const (
	shown     = 12
	shownFrom = 10
)

// slowest are the tests that have taken longest, the longest first. A run's time is what they make it.
type slowest []event

// note takes a test that has ended; parts of one are part of its time.
func (s *slowest) note(e event) {
	if e.Elapsed < shownFrom || e.Test == "" || strings.Contains(e.Test, "/") || e.Action != "pass" && e.Action != "fail" {
		return
	}
	*s = append(*s, e)
	slices.SortStableFunc(*s, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	*s = (*s)[:min(len(*s), shown)]
}

func (s slowest) print(to io.Writer) {
	for _, e := range s {
		fmt.Fprintf(to, "SLOW  %s %s  %.0fs\n", e.Package, e.Test, e.Elapsed)
	}
}
