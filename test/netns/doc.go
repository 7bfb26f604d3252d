// Package netns gives tests networks of their own: namespaces, pairs of hosts
// joined by a virtual cable, a relay in the middle of the cable that loses,
// doubles, delays and reorders, and a recorder of what passes.
//
// It owns namespaces without names: each lives as long as somebody holds its
// file or is inside, so a killed test leaves none behind. Nothing of the host's
// network is touched. All of it needs root; Test functions skip without.
//
// A namespace belongs to a thread: what is opened by a function that Do runs is
// inside, what the goroutines do that it starts is not.
//
// A Relay has four goroutines, two each way: runRead, and runDeliver for
// frames that wait. Close joins them. A Recorder has one, runRecord, joined by
// Stop. A queue's lock is a leaf.
package netns
