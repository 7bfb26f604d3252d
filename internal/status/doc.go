// Package status is what a daemon says of its mount: what is in force, whether its server
// is there and what waits for it, how its calls travelled, and what they cost.
//
// It owns the JSON of "rdmafs status" and "rdmafs stats", which is also what travels
// over the control socket, how both are printed, differences between reports, and the form of
// /proc/self/mountstats. Keys are lower_snake_case, as
// in the doctor's. It refuses to ask: internal/control does. What a Report holds may
// be another user's words; printing makes it plain.
//
// No state, no goroutines, no locks.
package status
