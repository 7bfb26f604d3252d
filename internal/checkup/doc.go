// Package checkup hands the doctor a mount: the functions that a doctor.Case wants
// are those of internal/session, internal/mount and internal/providers, with the
// options of the mount that is examined.
//
// It owns which ways to a server are examined: those that the options allow first,
// then those that other options would choose (ways.go). It refuses to judge: the
// order of the steps and how grave a finding is are internal/doctor's. The trial
// mount is the caller's, since how a mount is served is.
//
// No goroutines, no locks.
package checkup
