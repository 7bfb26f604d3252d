// Package status is what a daemon says of its mount: what is in force, and how its
// calls travelled.
//
// It owns the JSON of "rdmafs status" and "rdmafs stats", which is also what travels
// over the control socket, and how both are printed. Keys are lower_snake_case, as
// in the doctor's. It refuses to ask: internal/control does. What a Report holds may
// be another user's words; printing makes it plain.
//
// No state, no goroutines, no locks.
package status
