// Package nfstest is the suite that every nfsclient.Client runs against every
// server: all operations, the statuses of their failures, and the places where
// servers and transports differ.
//
// It owns a directory of its own at the export's root for each test, which it
// removes, and one registered arena per client. It refuses to test what the
// protocol leaves open: where a server has a choice, all of its choices pass.
//
// Clients come from the function given to Run and are closed by the suite.
// Goroutines are started by the concurrency test only, and joined by it.
package nfstest
