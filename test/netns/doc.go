// Package netns gives tests networks of their own: namespaces, pairs of hosts
// joined by a virtual cable, a relay in the middle of the cable that loses,
// doubles, delays and reorders, and a recorder of what passes.
//
// It owns namespaces without names: each exists as long as a process holds its
// file or is inside, so a killed test leaves none behind. The host's network is
// not touched. All of it needs root; Test functions skip without.
//
// A namespace belongs to a thread: a socket that a function run by Do opens is
// inside, those that its goroutines open are not.
//
// A Relay has four goroutines, two each way: runRead, and runDeliver for
// frames that wait. Close joins them. A Recorder has one, runRecord, joined by
// Stop. A queue's lock is a leaf.
package netns
